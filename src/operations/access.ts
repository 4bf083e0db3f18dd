import type { EpochMs } from '../domain/clock.ts'
import type { AppRef, WebSession } from '../features/access/store.ts'

/** The scopes of API keys. `admin` includes the others. */
export const scopes = ['admin', 'publish', 'read'] as const
type Scope = (typeof scopes)[number]

/** The capabilities of application tokens, by Svix's names. */
export const capabilities = [
  'ViewBase',
  'ViewEndpointSecret',
  'ManageEndpointSecret',
  'ManageTransformations',
  'CreateAttempts',
  'ManageEndpoint',
] as const
type Capability = (typeof capabilities)[number]

/** The owner of the key or token of a request. */
export interface Caller {
  /** The id of the key or token; `fixed` for the key from the settings. */
  readonly id: string
  readonly key: number
  readonly scopes: ReadonlySet<string>
  /** Undefined for an API key. */
  readonly capabilities: ReadonlySet<string> | undefined
  /** The feature flags of an application token; absent or null for a caller that sees every event type. */
  readonly featureFlags?: ReadonlySet<string> | null
  /** The one application the caller may see; null for all. */
  readonly app: AppRef | null
  /** When the key or token expires; absent or null for never. */
  readonly expiresAt?: EpochMs | null
  /** The browser session of the request; absent for a key or token in a header. */
  readonly session?: WebSession
  /** The hash of the sign-in link of the request, which permits nothing but signing in. */
  readonly signInLink?: Uint8Array
}

/** The permission that a route asks for. */
export interface Need {
  readonly scope: Scope
  /** Any one of these lets an application token in; none do when it is empty. */
  readonly portal: readonly Capability[]
  /** Whether a caller bound to one application may call it although the path names none. */
  readonly shared: boolean
  /** Which calls that succeed are written to the audit log: those that change something, all, or none. */
  readonly audited: 'changes' | 'all' | 'none'
  /** The fields of the body that the audit log must not hold. */
  readonly hidden?: readonly string[]
}

/** Reading what belongs to one application, for keys and for its portal. */
export const view = need('read', ['ViewBase'])
/** Reading, for keys alone. */
export const read = need('read', [])
/** Reading what all applications share. */
export const viewShared: Need = { ...view, shared: true }
/** Changing an application's endpoints. */
export const manage = need('admin', ['ManageEndpoint'])
export const viewSecret: Need = {
  ...need('admin', ['ViewEndpointSecret', 'ManageEndpointSecret', 'ManageEndpoint']),
  audited: 'all',
}
export const changeSecret = need('admin', ['ManageEndpointSecret', 'ManageEndpoint'])
/** Sending again, and trying an endpoint. */
export const attempt = need('admin', ['CreateAttempts', 'ManageEndpoint'])
// Messages are a log themselves, and a row for each would cost more than the message.
export const publish: Need = { ...need('publish', []), audited: 'none' }
/** Ending one's own session, with any portal token. */
export const endSession: Need = { ...need('admin', capabilities), shared: true }
/** Asking what the key or token of the request may do. */
export const ownAccess: Need = { ...need('read', capabilities), shared: true }
/** Starting a session, with any key that may read, a portal token, or a sign-in link. */
export const signIn: Need = { ...need('read', capabilities), shared: true }
/** Making a link that signs in with the key of the request. */
export const makeLink: Need = { ...need('read', []), shared: true }
/** Erasing and exporting persons. The audit log does not name them. */
export const eraseSubjects: Need = { ...need('admin', []), audited: 'all', hidden: ['subject'] }
/** Everything else. */
export const admin = need('admin', [])

/** Whether the caller has the permission, apart from the application in the path. */
export function mayCall(caller: Caller, need: Need, withinApp: boolean): boolean {
  const { scope, portal, shared } = need
  if (caller.signInLink !== undefined && need !== signIn) return false
  if (caller.app !== null && !withinApp && !shared) return false
  const { scopes: held, capabilities: granted } = caller
  if (granted !== undefined) return portal.some((capability) => granted.has(capability))
  return held.has('admin') || held.has(scope)
}

/** Whether the caller sees the data of a task that erases a person: its report is for administrators. */
export function seesErasures(caller: Caller | null): boolean {
  return caller !== null && mayCall(caller, eraseSubjects, true)
}

/** Why a caller may not call a route, as a sentence. */
export function refusalOf(caller: Caller, { scope, portal }: Need): string {
  const { scopes: held, capabilities: granted, app, signInLink } = caller
  if (signInLink !== undefined) return 'A sign-in link starts a session, and does nothing else.'
  if (granted !== undefined) {
    if (portal.length === 0) return 'A portal token may not do that; it takes an API key.'
    if (portal.some((capability) => granted.has(capability))) return 'A portal token is for one application only.'
    if (isReadOnly(granted)) return 'This portal token is read-only.'
    return `This portal token does not have the capability ${portal.join(' or ')}.`
  }
  if (!held.has('admin') && !held.has(scope))
    return `This key does not permit that: it takes a key with the scope ${scope}.`
  return `This key does not permit that: it is for the application ${app?.id} only.`
}

/** Whether a portal token may only look. */
export function isReadOnly(granted: ReadonlySet<string>): boolean {
  return granted.size === 1 && granted.has('ViewBase')
}

function need(scope: Scope, portal: readonly Capability[]): Need {
  return { scope, portal, shared: false, audited: 'changes' }
}
