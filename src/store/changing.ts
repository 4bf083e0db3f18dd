import type { EpochMs } from '../domain/clock.ts'
import type { Endpoint } from '../domain/endpoint.ts'
import { given } from '../domain/given.ts'
import type { EndpointChange } from './configuration.ts'

/** The endpoint with the given fields changed. What is not given, or given as undefined, stays. */
export function changedEndpoint(before: Endpoint, change: EndpointChange, now: EpochMs): Endpoint {
  const { flow, ...rest } = given(typeof change === 'function' ? change(before, now) : change)
  const { damaged: wasDamaged = [], ...whole } = before
  // A field that is set replaces its damaged record.
  const damaged = wasDamaged.filter((field) => rest[field] === undefined)
  const after: Endpoint = {
    ...whole,
    ...rest,
    ...(damaged.length > 0 && { damaged }),
    flow: { ...before.flow, ...flow },
  }
  if (after.disabled === before.disabled) return after
  return { ...after, disabledReason: after.disabled ? 'operator' : null }
}

/** The uid a change sets, for saying which one is taken. */
export function uidIn(change: EndpointChange): string | null {
  return typeof change === 'function' ? null : (change.uid ?? null)
}

/** Whether a lane that rests is to be looked at anew: its endpoint wants to be judged, or to have messages, otherwise. */
export function restsAnew(before: Endpoint, after: Endpoint): boolean {
  const { circuit, circuitOrder, adaptive } = after.flow
  if (before.flow.circuit !== circuit || before.flow.circuitOrder !== circuitOrder) return true
  if (before.flow.adaptive !== adaptive || isEnabled(before, after)) return true
  return before.flow.order !== after.flow.order || before.flow.deadHead !== after.flow.deadHead
}

/** Whether the endpoint is enabled again: how its receiver did before is forgotten. */
export function isEnabled(before: Endpoint, after: Endpoint): boolean {
  return before.disabled && !after.disabled
}
