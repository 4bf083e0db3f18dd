import assert from 'node:assert/strict'
import { defaultFlow } from '../../src/domain/flow.ts'
import { Health } from '../../src/domain/health.ts'
import { defaultRetryPolicy } from '../../src/domain/retry.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'
import type { Delivery } from '../../src/engine/delivery.ts'
import { type LaneSettings, limitsOf, OwnedLane, orderingOf } from '../../src/engine/owned-lane.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { rulesOf } from '../../src/features/endpoints/rules.ts'

const limits = { inFlight: 100_000, inFlightPerApp: 100_000 }

export function endpointOf(key: number): Endpoint {
  return {
    key,
    id: `ep_${key}`,
    app: 1,
    uid: null,
    url: 'https://receiver.example/',
    description: '',
    disabled: false,
    paused: false,
    disabledReason: null,
    eventTypes: null,
    channels: null,
    secrets: [],
    method: 'POST',
    headers: {},
    auth: null,
    clientCertificate: null,
    metadata: {},
    throttleRate: null,
    throttlePeriodSeconds: 1,
    burst: null,
    concurrency: 10_000,
    timeoutMs: null,
    retry: null,
    flow: defaultFlow,
    createdAt: 0,
    updatedAt: 0,
  }
}

/** Settings of a lane that sends nothing. */
export function settingsOf(endpoint: Endpoint): LaneSettings {
  return {
    endpoint,
    target: { send: () => assert.fail('nothing is sent here') },
    policy: defaultRetryPolicy,
    rules: rulesOf(endpoint, { circuit: undefined, disableAfterMs: 0 }),
  }
}

/** A scheduler with room for everything. */
export function roomyScheduler(): Scheduler<Delivery> {
  return new Scheduler<Delivery>(limits)
}

/** A lane that was just taken, with nothing read. */
export function aLane(
  endpoint: Endpoint = endpointOf(1),
  scheduler: Scheduler<Delivery> = roomyScheduler(),
  now = 0,
): OwnedLane {
  const start = { bucketDebtMs: 0, holdMs: 0 }
  const lane = scheduler.add(endpoint.key, endpoint.app, limitsOf(endpoint), start, now, orderingOf(endpoint))
  return new OwnedLane(lane, settingsOf(endpoint), new Health(null, 0, now), now)
}
