import type { Item } from './client.ts'

/** A field as text on one line, so that data cannot imitate our own lines; '–' when it is empty. */
export function text(value: unknown): string {
  if (value === undefined || value === null || value === '') return '–'
  if (Array.isArray(value)) return value.length === 0 ? '–' : value.map(text).join(', ')
  return (typeof value === 'object' ? JSON.stringify(value) : String(value)).replace(/[\r\n\t]+/g, ' ')
}

/** An instant to the second, in UTC: `2026-11-15 09:40:12`. */
export function instant(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 19).replace('T', ' ') : text(value)
}

/** The time since an instant, in one unit: `5 m ago`. */
export function ago(value: unknown, now: number): string {
  if (typeof value !== 'string') return text(value)
  const seconds = Math.max(0, Math.floor((now - Date.parse(value)) / 1000))
  if (seconds < 60) return 'just now'
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ago`
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h ago` : `${Math.floor(seconds / 86_400)} d ago`
}

/** The uid of a resource if it has one, else its id. */
export function nameOf({ uid, id }: Item): string {
  return text(uid ?? id)
}

/** `1 message`, `2 messages`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
}
