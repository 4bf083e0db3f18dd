import type { EpochMs } from '../domain/clock.ts'

/** `held_until` of a row that waits for an operator: no instant is later. */
export const blockedUntil: EpochMs = Number.MAX_SAFE_INTEGER

/** `held_until` of a row that an operator has skipped: its lane's owner ends it. */
export const skipMark: EpochMs = -1

/** `PendingRow.heldMs` of a row that is to be ended without being sent. */
export const skipped = -1

/** `PendingRow.heldMs`, from the stored column. */
export function heldMsOf(heldUntil: EpochMs | null, now: EpochMs): number {
  if (heldUntil === null) return 0
  if (heldUntil === skipMark) return skipped
  return heldUntil === blockedUntil ? Number.POSITIVE_INFINITY : Math.max(0, heldUntil - now)
}

/** SQL for `held_ms`: the rest of a wait, or one of the marks as it is. */
export function sqlHeldMs(heldUntil: string, now: string): string {
  return `case when ${heldUntil} in (${skipMark}, ${blockedUntil}) then ${heldUntil} else ${heldUntil} - ${now} end`
}

/** `PendingRow.heldMs`, from the column that `sqlHeldMs` makes. */
export function toHeldMs(heldMs: number | null): number {
  if (heldMs === blockedUntil) return Number.POSITIVE_INFINITY
  return heldMs === skipMark ? skipped : Math.max(0, heldMs ?? 0)
}
