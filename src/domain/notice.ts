import type { AuditEntry } from './audit.ts'
import type { EpochMs } from './clock.ts'
import type { DisabledReason } from './endpoint.ts'
import type { Verdict } from './judge.ts'

/** What operational webhooks tell of. The names and payloads of those that Svix has are Svix's. */
export type NoticeType =
  | 'endpoint.created'
  | 'endpoint.updated'
  | 'endpoint.deleted'
  | 'endpoint.enabled'
  | 'endpoint.disabled'
  | 'endpoint.circuit.opened'
  | 'endpoint.circuit.half_open'
  | 'endpoint.circuit.closed'
  | 'message.attempt.exhausted'
  | 'message.attempt.failing'
  | 'message.attempt.recovered'

/** Something an operator may want to hear of. */
export interface Notice {
  readonly type: NoticeType
  readonly endpoint: number
  /** The message concerned, if it is about one. */
  readonly message?: number
  /** What is told beside whom it concerns. */
  readonly data: Readonly<Record<string, unknown>>
}

/** A notice as it is kept until it was sent. */
export interface StoredNotice {
  readonly key: number
  readonly at: EpochMs
  readonly type: NoticeType
  readonly app: number
  readonly endpoint: number
  readonly message: number | null
  /** Whom it concerns (`appId`, `appUid`, `endpointId`, `endpointUid`), as they were called then, and the rest. */
  readonly data: Readonly<Record<string, unknown>>
}

/** Whom a notice concerns. */
export interface Concerned {
  readonly app: number
  readonly appId: string
  readonly appUid: string | null
  readonly endpoint: number
  readonly endpointId: string
  readonly endpointUid: string | null
}

/** What is told of a notice. */
export function noticeData(notice: Notice, { appId, appUid, endpointId, endpointUid }: Concerned) {
  return { appId, appUid, endpointId, endpointUid, ...notice.data }
}

/** What a change of an endpoint's settings, that somebody asked for, is told as. */
export function changeNotices(
  before: { readonly disabled: boolean },
  after: { readonly disabled: boolean },
): readonly NoticeType[] {
  return before.disabled && !after.disabled ? ['endpoint.updated', 'endpoint.enabled'] : ['endpoint.updated']
}

/** An endpoint was disabled by itself. It fails since now when it only just began to. */
export function disabledNotice(endpoint: number, reason: DisabledReason, failingSince: EpochMs): Notice {
  return { type: 'endpoint.disabled', endpoint, data: { failSince: new Date(failingSince).toISOString(), reason } }
}

/** A delivery that has failed this often is failing, as Svix counts. */
export const failingAfter = 4

/** What an attempt is told as, if at all. `failures` counts those before it. */
export function attemptNotice(state: Verdict['state'], failures: number): NoticeType | undefined {
  if (state === 'dead' || state === 'blocked') return 'message.attempt.exhausted'
  if (state === 'delivered') return failures >= failingAfter ? 'message.attempt.recovered' : undefined
  return failures + 1 === failingAfter ? 'message.attempt.failing' : undefined
}

/** Who changed it when nobody asked. */
export const ownActor = 'sluice'

/** The entry in the audit log about a change that Sluice made by itself; undefined when the notice is of no change. */
export function noticeAudit(notice: Notice, concerned: Concerned): AuditEntry | undefined {
  if (!byItself.has(notice.type)) return undefined
  return {
    actor: ownActor,
    ip: '',
    action: notice.type,
    app: concerned.appId,
    target: `/api/v1/app/${concerned.appId}/endpoint/${concerned.endpointId}`,
    before: null,
    after: JSON.stringify(notice.data),
  }
}

// All others follow a request, which is in the log itself, or change nothing.
const byItself: ReadonlySet<NoticeType> = new Set([
  'endpoint.disabled',
  'endpoint.circuit.opened',
  'endpoint.circuit.half_open',
  'endpoint.circuit.closed',
])
