import { span } from '../domain/phrases.ts'
import type { Item } from './client.ts'
import { text } from './table.ts'

/** The settings of an endpoint beyond its rate, as lines for a terminal; defaults are left out. */
export function flowFacts(item: Item): [string, string | undefined][] {
  const { coalesce, circuit, adaptive, disableAfterMs, maxWaiting, overflow, maxAgeSeconds, whileDisabled } = item
  return [
    ['circuit', circuit == null ? undefined : text(circuit)],
    ['adaptive', adaptive === false ? 'off' : undefined],
    ['disabled after', disableAfterMs == null ? undefined : disableText(disableAfterMs)],
    ['may wait', maxWaiting == null ? undefined : text(maxWaiting)],
    ['overflow', overflow == null || overflow === 'refuse' ? undefined : text(overflow)],
    ['max age', maxAgeSeconds == null ? undefined : span(Number(maxAgeSeconds) * 1000)],
    ['while disabled', whileDisabled === 'drop' ? 'what is published is dropped' : undefined],
    ['order', item.order == null || item.order === 'none' ? undefined : orderText(item)],
    ['coalesce', coalesce == null ? undefined : coalesceText(coalesce as Item)],
    ['filter', item.filter == null ? undefined : text(item.filter)],
    ['shape', item.shape == null ? undefined : text(item.shape)],
    ['region', item.region == null ? undefined : text(item.region)],
    ['signature', item.signature == null || item.signature === 'standard' ? undefined : text(item.signature)],
  ]
}

function orderText({ order, deadHead }: Item): string {
  const kind = order === 'fifo' ? 'one at a time, as accepted' : 'as accepted, for each ordering key'
  return deadHead === 'block' ? `${kind}; what used up its attempts blocks` : kind
}

function disableText(ms: unknown): string {
  return ms === 0 ? 'never' : `failing for ${span(Number(ms))}`
}

function coalesceText({ windowMs, key }: Item): string {
  const kind = key == null ? 'event type' : `event type and ${text(key)}`
  return `the newest of ${span(Number(windowMs))} by ${kind}`
}
