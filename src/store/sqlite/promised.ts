import type { MaybeSynchronous, Synchronous } from './connection.ts'
import { asTrouble } from './trouble.ts'

/**
 * Turns a part's methods into those of the store: each answers a promise, also those that are synchronous, and rejects
 * with `StoreTrouble` where that is what happened. `before` runs ahead of every call.
 */
export function promised<T>(part: Synchronous<T>, before?: () => void): T
export function promised<T>(part: MaybeSynchronous<T>, before?: () => void): T
export function promised<T>(part: Synchronous<T>, before: () => void = () => {}): T {
  const methods: Record<string, unknown> = {}
  for (const [name, method] of Object.entries<(...args: never[]) => unknown>(part)) {
    methods[name] = async (...args: never[]) => {
      try {
        before()
        return await method(...args)
      } catch (error) {
        throw asTrouble(error)
      }
    }
  }
  return methods as T
}
