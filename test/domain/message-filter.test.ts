import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Attempt,
  isOfClass,
  isOpen,
  type MessageSummary,
  meetsFilter,
  meetsReplay,
} from '../../src/domain/delivery.ts'
import type { ReplayFilter } from '../../src/features/tasks/rules.ts'

const message: MessageSummary = {
  key: 1,
  id: 'msg_1',
  app: 1,
  eventType: 'video.trending',
  eventId: null,
  channels: ['c1', 'c2'],
  contentType: 'application/json',
  tags: ['t'],
  bytes: 2,
  deliverAt: null,
  expiresAt: null,
  orderingKey: null,
  expunged: false,
  eraseReason: null,
}
const attempt: Attempt = {
  id: 'atmpt_1',
  message: 1,
  endpoint: 1,
  n: 1,
  at: 0,
  durationMs: 1,
  status: 503,
  code: 'refused',
  error: null,
  response: null,
  responseHeaders: null,
  timings: null,
  nextAt: null,
  trigger: 'scheduled',
}
const any: ReplayFilter = { eventTypes: null, channel: null, tag: null, outcome: null, statusClass: null }

test('a message meets a filter when it meets every part of it', () => {
  assert(isOpen({}) && !isOpen({ tag: 't' }))
  assert(meetsFilter(message, {}))
  assert(meetsFilter(message, { channel: 'c2', tag: 't', eventTypes: ['x', 'video.trending'] }))
  assert(!meetsFilter(message, { channel: 'c3', tag: 't' }))
  assert(!meetsFilter(message, { tag: 'u' }))
  assert(!meetsFilter(message, { eventTypes: ['video'] }))
  assert(!meetsFilter({ ...message, channels: null, tags: null }, { channel: 'c1' }))
})

test('a status is of the class of its hundreds, and none is of class 0', () => {
  assert(isOfClass({ status: 503 }, 500) && isOfClass({ status: 0 }, 0) && isOfClass({ status: 200 }, 200))
  assert(!isOfClass({ status: 499 }, 500))
})

test('a replay by filter includes ended deliveries, by their latest attempt', () => {
  assert(meetsReplay(message, attempt, any))
  assert(!meetsReplay(message, undefined, any))
  assert(!meetsReplay(message, { ...attempt, nextAt: 1 }, any))
  assert(!meetsReplay({ ...message, expunged: true }, attempt, any))
  assert(meetsReplay(message, attempt, { ...any, outcome: 'failed', statusClass: 500, eventTypes: ['video.trending'] }))
  assert(!meetsReplay(message, attempt, { ...any, outcome: 'delivered' }))
  assert(meetsReplay(message, { ...attempt, code: 'delivered', status: 200 }, { ...any, outcome: 'delivered' }))
  assert(!meetsReplay(message, attempt, { ...any, statusClass: 400 }))
  assert(!meetsReplay(message, attempt, { ...any, channel: 'c3' }))
  assert(!meetsReplay(message, attempt, { ...any, tag: 'u' }))
})
