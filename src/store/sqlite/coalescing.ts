import type { EpochMs } from '../../domain/clock.ts'
import { timed } from '../../domain/delivery.ts'
import { closingMs } from '../maintenance.ts'
import type { Special } from '../publishing.ts'
import type { Connection } from './connection.ts'

const selectWindow = 'select message, due_at from coalescing where endpoint = ? and key = ?'
const insertWindow = 'insert or replace into coalescing (endpoint, key, message, due_at) values (?, ?, ?, ?)'
const selectWaiting = `select 1 from pending where endpoint = ? and class = ${timed} and due_at = ? and message = ?`
// A delivery that was tried no longer waits for the end of its window.
const deleteWaiting = `
  delete from pending where endpoint = ? and class = ${timed} and due_at = ? and message = ? and attempts = 0`
const insertCoalesced = 'insert or replace into coalesced (message, endpoint, at, successor) values (?, ?, ?, ?)'

/** A delivery that is to be coalesced. */
export interface Joining extends NonNullable<Special['coalesce']> {
  readonly endpoint: number
  readonly message: number
  /** Queued some time after it was accepted, as deliveries of wide messages are: a newer one may wait already. */
  readonly late: boolean
}

/** When a delivery is due, and whether it replaced another; undefined when a newer one replaced it. */
export type Joined = { readonly dueAt: EpochMs; readonly replaces: boolean } | undefined

/** Makes the function by which a delivery joins a window or opens one. The caller has a transaction, and queues it. */
export function windows(connection: Connection): (joining: Joining, now: EpochMs) => Joined {
  const find = connection.prepare<{ message: number; due_at: EpochMs }>(selectWindow)
  const keep = connection.prepare(insertWindow)
  const waiting = connection.prepare<unknown>(selectWaiting)
  const remove = connection.prepare(deleteWaiting)
  const end = connection.prepare(insertCoalesced)

  return ({ endpoint, message, key, windowMs, late }, now) => {
    const open = find.get(endpoint, key)
    const latest = now + Math.ceil(windowMs)
    // A window that seems to end later than it can was opened before the clock was set back, or when windows were longer.
    if (open === undefined || open.due_at <= now + closingMs || open.due_at > latest) {
      keep.run(endpoint, key, message, latest)
      return { dueAt: latest, replaces: false }
    }
    const { due_at: dueAt, message: other } = open
    if (late && other > message) {
      if (waiting.get(endpoint, dueAt, other) === undefined) return { dueAt, replaces: false }
      end.run(message, endpoint, now, other)
      return undefined
    }
    // The other delivery is no longer in the queue when it was replayed or expunged meanwhile.
    const replaces = remove.run(endpoint, dueAt, other).changes > 0
    if (replaces) end.run(other, endpoint, now, message)
    keep.run(endpoint, key, message, dueAt)
    return { dueAt, replaces }
  }
}
