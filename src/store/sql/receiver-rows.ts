import type { EpochMs } from '../../domain/clock.ts'
import type { Form } from '../../domain/field.ts'
import { type Flow, fromFlow, toFlow } from '../../domain/flow.ts'
import type { Subscription } from '../../domain/match.ts'
import type { ApplicationSettings } from '../../features/applications/noun.ts'
import { openRegion } from '../../features/applications/rows.ts'
import { type ColumnName, type ColumnValues, type endpointFields, fieldEntries } from '../../features/endpoints/noun.ts'
import { type Endpoint, type SealedField, type Secret, sealedFields } from '../../features/endpoints/rules.ts'
import type { NewEndpoint } from '../configuration.ts'
import type { StoreContext } from '../store.ts'
import { openValue, SealError, sealValue, unlessDamaged, type Vault } from '../vault.ts'
import { type Shape, toJson, type Value } from './statement.ts'

type EndpointFields = typeof endpointFields

/** The columns of the fields that callers set, and those that have routes of their own. */
export interface EndpointRow extends Omit<FieldColumns, SealedColumn> {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly disabled_reason: Endpoint['disabledReason']
  readonly paused: boolean
  /** Sealed, unless empty, as headers are. */
  readonly secrets: string | readonly Secret[]
  readonly headers: string | Readonly<Record<string, string>>
  /** Sealed, or null. */
  readonly auth: string | null
  readonly client_certificate: string | null
  /** When the client certificate expires, in the open: the doctor looks for it. */
  readonly certificate_expires_at: EpochMs | null
  readonly flow: Partial<Flow> | null
  readonly created_at: EpochMs
  readonly updated_at: EpochMs
}

export const sealedColumns = {
  secrets: 'secrets',
  headers: 'headers',
  auth: 'auth',
  clientCertificate: 'client_certificate',
} as const satisfies Readonly<Record<SealedField, string>>
type SealedColumn = (typeof sealedColumns)[SealedField]

type FieldColumns = { readonly [Name in ColumnName as EndpointFields[Name]['column']]: ColumnValues[Name] }

export interface SendableRow extends EndpointRow {
  readonly app_id: string
  readonly app_throttle_rate: number | null
  readonly app_settings: ApplicationSettings | null
  readonly region_secret: string | null
}

/** The fields that are columns, each with its form in the database. */
const columns = fieldEntries.flatMap(([name, { column, kind }]) => {
  if (column === undefined) return []
  const form = Object.values<string>(sealedColumns).includes(column) ? 'sealed' : formOf(kind)
  return [{ name: name as ColumnName, column: column as keyof EndpointRow, form }]
})

function formOf({ is }: Form): 'plain' | 'json' | 'flag' {
  if (is === 'boolean') return 'flag'
  return is === 'list' || is === 'labels' || is === 'object' ? 'json' : 'plain'
}

/** The columns that are read as they are stored. */
const plainColumns = columns.filter(({ form }) => form !== 'sealed')

const inForm = (form: string) => columns.filter((each) => each.form === form).map(({ column }) => column)

/** The columns of an endpoint that a caller may set. */
export const settableColumns: readonly string[] = [
  ...columns.map(({ column }) => column),
  'secrets',
  'paused',
  'flow',
  'certificate_expires_at',
]

/** All columns of an endpoint, qualified, since lanes have some of the same names. */
export const endpointColumns = ['key', 'id', 'app', ...settableColumns, 'disabled_reason', 'created_at', 'updated_at']
  .map((column) => `endpoint.${column}`)
  .join(', ')

/** An endpoint's columns with those of its application and its region that sending takes. Each is a probe for one row. */
export const sendableColumns = `${endpointColumns},
  (select id from application where application.key = endpoint.app limit 1) as app_id,
  (select throttle_rate from application where application.key = endpoint.app limit 1) as app_throttle_rate,
  (select settings from application where application.key = endpoint.app limit 1) as app_settings,
  (select secret from region where region.app = endpoint.app and region.name = endpoint.flow ->> 'region' limit 1)
    as region_secret`

export const endpointShape: Shape<EndpointRow> = {
  json: [...inForm('json'), 'flow'],
  flags: [...inForm('flag'), 'paused'],
  sealed: [...inForm('sealed'), 'secrets'],
}
export const sendableShape: Shape<SendableRow> = {
  ...endpointShape,
  json: [...(endpointShape.json ?? []), 'app_settings'],
}

type Filled<T> = { -readonly [Name in keyof T]: T[Name] }

/**
 * An endpoint without values. A copy of it has its final shape from the start: an object that grows by forty fields takes five
 * times the memory meanwhile, and each lane that is claimed needs one.
 */
const blank: Endpoint = {
  ...{ key: 0, id: '', app: 0, disabledReason: null, paused: false },
  ...(Object.fromEntries(columns.map(({ name }) => [name, null])) as unknown as ColumnValues),
  ...{ secrets: [], headers: {}, auth: null, clientCertificate: null },
  ...{ flow: toFlow(null), createdAt: 0, updatedAt: 0 },
}
const blankSendable: Endpoint = { ...blank, appId: '', appThrottleRate: null, appSettings: {}, regionSecret: null }

/** Sealed fields that do not open read as empty, and `onDamage` hears of each. */
export function toEndpoint(row: EndpointRow, vault: Vault, onDamage?: (error: SealError) => void): Endpoint {
  return fill({ ...blank }, row, vault, onDamage)
}

function fill(
  endpoint: Filled<Endpoint>,
  row: EndpointRow,
  vault: Vault,
  onDamage?: (error: SealError) => void,
): Filled<Endpoint> {
  endpoint.key = row.key
  endpoint.id = row.id
  endpoint.app = row.app
  endpoint.disabledReason = row.disabled_reason
  endpoint.paused = row.paused
  const values = endpoint as unknown as Record<string, unknown>
  for (const { name, column } of plainColumns) values[name] = shared(row[column])
  endpoint.flow = toFlow(row.flow)
  endpoint.createdAt = row.created_at
  endpoint.updatedAt = row.updated_at
  for (const field of sealedFields) {
    const stored = row[sealedColumns[field]]
    values[field] = blank[field]
    if (stored === null) continue
    try {
      values[field] = shared(openValue(vault, stored, { app: row.app, endpoint: row.key, field }))
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      endpoint.damaged = [...(endpoint.damaged ?? []), field]
      onDamage?.(error)
    }
  }
  return endpoint
}

/** The endpoint as the engine needs it. Nothing is sent to a damaged one; the other lanes go on. */
export function toSendable(row: SendableRow, vault: Vault, log: ((sentence: string) => void) | undefined): Endpoint {
  const endpoint = fill({ ...blankSendable }, row, vault, ({ message }) =>
    log?.(`nothing can be sent to ${row.id}: ${message}`),
  )
  const { region } = endpoint.flow
  endpoint.appId = row.app_id
  endpoint.appThrottleRate = row.app_throttle_rate
  endpoint.appSettings = shared(row.app_settings ?? noSettings) as ApplicationSettings
  endpoint.regionSecret =
    region === null || row.region_secret === null
      ? null
      : openRegion(vault, row.region_secret, { app: row.app, name: region }, log)
  return endpoint
}

const noSettings: ApplicationSettings = Object.freeze({})

/** A value of a column: all empty records are one, because most endpoints have several. */
function shared(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  for (const _ in value) return value
  return noSettings
}

/** The columns that decide whether an endpoint gets a message, and how. */
export interface SubscriptionRow
  extends Pick<EndpointRow, 'key' | 'id' | 'uid' | 'event_types' | 'channels' | 'disabled' | 'flow'> {
  /** Null where the flow is the default one. */
  readonly secrets: string | readonly Secret[] | null
}

export function toSubscription(
  row: SubscriptionRow,
  app: number,
  { vault, log }: StoreContext,
  regions: ReadonlyMap<string, string | null>,
): Subscription {
  const { key: endpoint, id, uid, event_types: eventTypes, channels } = row
  const subscription = { endpoint, id, uid, eventTypes, channels }
  if (row.flow === null) return subscription
  const flow = toFlow(row.flow)
  const place = { app, endpoint: row.key, field: 'secrets' }
  // The newest one, which signs from now on.
  const open = () => openValue<readonly Secret[]>(vault, row.secrets ?? [], place)[0]?.secret
  const isSigned = flow.signature === 'stored'
  const secret = isSigned ? (unlessDamaged(open, log, `nothing can be signed for ${row.id}`) ?? null) : null
  const regionSecret = regions.get(flow.region ?? '') ?? null
  return { ...subscription, treatment: { id: row.id, flow, disabled: row.disabled, secret, regionSecret } }
}

/** The sealed columns of an endpoint as a database has them. */
type SealedColumns = Readonly<Record<SealedColumn, unknown>>

/**
 * The values of those columns, with JSON as text and secrets sealed for this endpoint, as by `sealValue`. A damaged
 * record that is not replaced stays as it is `stored`: the right key, or a backup, may still open it.
 */
export function settableValues(
  endpoint: NewEndpoint & Pick<Endpoint, 'damaged'>,
  identity: { readonly app: number; readonly key: number },
  vault: Vault,
  stored?: SealedColumns,
) {
  const sealed = (field: SealedField): Value => {
    if (stored !== undefined && endpoint.damaged?.includes(field)) return { sealed: stored[sealedColumns[field]] }
    const value = endpoint[field]
    if (value === null) return null
    return { sealed: sealValue(vault, value, { app: identity.app, endpoint: identity.key, field }) }
  }
  const values = columns.map(({ name, column, form }): [string, Value] => {
    const value = endpoint[name]
    if (form === 'json') return [column, toJson(value)]
    return [column, form === 'sealed' ? sealed(name as SealedField) : (value as Value)]
  })
  return {
    ...Object.fromEntries(values),
    secrets: sealed('secrets'),
    certificate_expires_at: endpoint.clientCertificate?.[0]?.validUntil ?? null,
    paused: endpoint.paused,
    flow: toJson(fromFlow(toFlow(endpoint.flow ?? null))),
  }
}
