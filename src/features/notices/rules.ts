import { apiRoot } from '../../domain/api.ts'
import type { EpochMs } from '../../domain/clock.ts'
import type { Verdict } from '../../domain/judge.ts'
import type { AuditEntry } from '../audit/rules.ts'
import type { DisabledReason } from '../endpoints/rules.ts'

/** Notices about the server as a whole, which concern no application. */
export type ServerNoticeType = 'alert.firing' | 'alert.resolved'

/** The event types of operational webhooks. Where Svix has the same, name and payload are Svix's. */
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
  | ServerNoticeType

/** An event that operators can subscribe to by an operational webhook. */
export interface Notice {
  readonly type: NoticeType
  readonly endpoint: number
  /** The message that it is about, if any. */
  readonly message?: number
  readonly data: Readonly<Record<string, unknown>>
}

/** A notice in the store, where it is kept until it is published. */
export interface StoredNotice extends Omit<Notice, 'message'> {
  readonly key: number
  readonly at: EpochMs
  /** `noApplication`, like `endpoint`, for a notice about the server. */
  readonly app: number
  readonly message: number | null
  /** The data of the notice, and the names of application and endpoint at that time. */
  readonly data: Notice['data']
}

/** In place of the application and the endpoint of a notice about the server. */
export const noApplication = -1

/** The application and the endpoint that a notice is about. */
export interface Concerned {
  readonly app: number
  readonly appId: string
  readonly appUid: string | null
  readonly endpoint: number
  readonly endpointId: string
  readonly endpointUid: string | null
}

export function noticeData(notice: Notice, { appId, appUid, endpointId, endpointUid }: Concerned) {
  return { appId, appUid, endpointId, endpointUid, ...notice.data }
}

/** The notices of a change of an endpoint's settings by request. */
export function changeNotices(
  before: { readonly disabled: boolean },
  after: { readonly disabled: boolean },
): readonly NoticeType[] {
  return before.disabled && !after.disabled ? ['endpoint.updated', 'endpoint.enabled'] : ['endpoint.updated']
}

/** The notice that Sluice disabled an endpoint. */
export function disabledNotice(endpoint: number, reason: DisabledReason, failingSince: EpochMs): Notice {
  return { type: 'endpoint.disabled', endpoint, data: { failSince: new Date(failingSince).toISOString(), reason } }
}

/**
 * Notices about single messages, and so as frequent as failing messages are. They are written only where an operational
 * webhook subscribes to them.
 */
export const frequentNotices: readonly NoticeType[] = [
  'message.attempt.exhausted',
  'message.attempt.failing',
  'message.attempt.recovered',
]

export function isFrequent({ type }: Pick<Notice, 'type'>): boolean {
  return frequentNotices.includes(type)
}

/** A delivery that has failed this often is failing, as in Svix. */
const failingAfter = 4

/** The notice of an attempt, if there is one. `failures` counts the failed attempts before it. */
export function attemptNotice(state: Verdict['state'], failures: number): NoticeType | undefined {
  if (state === 'dead' || state === 'blocked') return 'message.attempt.exhausted'
  if (state === 'delivered') return failures >= failingAfter ? 'message.attempt.recovered' : undefined
  return failures + 1 === failingAfter ? 'message.attempt.failing' : undefined
}

/** The audit entry of a change that Sluice made by itself; undefined for other notices. */
export function noticeAudit(notice: Notice, concerned: Concerned): AuditEntry | undefined {
  if (!byItself.has(notice.type)) return undefined
  return {
    actor: 'sluice',
    ip: '',
    action: notice.type,
    app: concerned.appId,
    target: `${apiRoot}/app/${concerned.appId}/endpoint/${concerned.endpointId}`,
    before: null,
    after: JSON.stringify(notice.data),
  }
}

// The others follow a request, which has its own audit entry, or change nothing.
const byItself: ReadonlySet<NoticeType> = new Set([
  'endpoint.disabled',
  'endpoint.circuit.opened',
  'endpoint.circuit.half_open',
  'endpoint.circuit.closed',
])
