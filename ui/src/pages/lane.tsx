import type { ComponentChildren } from 'preact'
import type { EndpointWhyOut, LaneOut } from '../api/schema.ts'
import type { Tone } from '../parts/pill.tsx'
import { figure, perSecond, waitingFigure } from '../parts/text.ts'
import { Ago, Since } from '../parts/time.tsx'

interface StageProps {
  readonly name: string
  readonly tone?: Tone | undefined
  readonly value: ComponentChildren
  readonly note?: ComponentChildren
  readonly children?: ComponentChildren
}

/** One place that a delivery passes. A stage that stops deliveries has a colour. */
function Stage({ name, tone, value, note, children }: StageProps) {
  return (
    <li class="stage" data-tone={tone}>
      <span class="name">{name}</span>
      <span class="value">{value}</span>
      <span class="drawing">{children}</span>
      <span class="note">{note}</span>
    </li>
  )
}

/** The blockers that belong to each stage. */
const stages = {
  queue: [
    'paused',
    'disabled',
    'no_worker',
    'no_worker_in_region',
    'waiting_for_retry',
    'scheduled',
    'coalescing',
    'head_blocked',
    'behind_head',
    'waiting_for_worker',
    'owner_silent',
    'store_trouble',
    'lease_unsure',
  ],
  rate: ['rate_limited', 'slowed', 'application_rate', 'failing'],
  circuit: ['circuit_open', 'opened_by_hand', 'probing', 'held'],
  flight: ['in_flight', 'crowded'],
} as const

/** An endpoint's lane as one picture: waiting deliveries, the limits that they pass, and attempts under way. */
export function LanePicture({ lane, why }: { lane: LaneOut; why: EndpointWhyOut }) {
  const reasons = new Set(why.blockers.map(({ reason }) => reason))
  const stopped = (stage: keyof typeof stages) => stages[stage].some((reason) => reasons.has(reason))
  const { live, waiting, limits, circuit } = lane
  const cap = live?.concurrency ?? limits.concurrency ?? 16
  const inFlight = live?.inFlight ?? 0
  const isIdle = waiting.total === 0
  const circuitTone: Tone =
    circuit.state === 'open' ? 'bad' : circuit.state === 'half_open' || lane.heldUntil !== null ? 'wait' : 'good'
  return (
    <ol class="lane" aria-label="Lane">
      <Stage
        name="Waiting"
        value={waitingFigure(waiting)}
        tone={lane.disabled || lane.paused ? 'quiet' : !isIdle && stopped('queue') ? 'wait' : undefined}
        note={
          isIdle ? (
            'Nothing waits'
          ) : (
            <>
              Oldest <Since at={lane.oldestSince} />
            </>
          )
        }
      >
        <QueueBar waiting={waiting} />
      </Stage>
      <Stage
        name="Rate limit"
        value={limits.throttleRate === null && live?.rate == null ? 'None' : perSecond(live?.rate ?? rateOf(limits))}
        tone={!isIdle && stopped('rate') ? 'wait' : undefined}
        note={
          lane.slowedTo !== null ? (
            `Slowed to ${perSecond(lane.slowedTo)} by the receiver`
          ) : live?.nextTokenAt != null && !isIdle ? (
            <>
              Next <Ago at={live.nextTokenAt} />
            </>
          ) : limits.throttleRate === null ? (
            'Sends as fast as the receiver takes'
          ) : (
            `${limits.burst === null ? 'Default burst' : `Burst ${limits.burst}`}${limits.rateFrom === 'endpoint' ? '' : `, from the ${limits.rateFrom}`}`
          )
        }
      >
        {limits.throttleRate !== null && (
          <Meter share={live?.rate != null && live.pace != null && live.rate > 0 ? live.pace / live.rate : 0} />
        )}
      </Stage>
      <Stage
        name="Circuit"
        value={
          circuit.state === 'closed'
            ? lane.heldUntil === null
              ? 'Closed'
              : 'Held'
            : circuit.state === 'open'
              ? 'Open'
              : 'Probing'
        }
        tone={circuitTone === 'good' ? undefined : circuitTone}
        note={
          circuit.openUntil !== null ? (
            <>
              Probe <Ago at={circuit.openUntil} />
            </>
          ) : circuit.manual ? (
            'Opened by an operator'
          ) : lane.heldUntil !== null ? (
            <>
              Retry-After, ends <Ago at={lane.heldUntil} />
            </>
          ) : circuit.failures > 0 ? (
            `${figure(circuit.failures)} failures in a row`
          ) : (
            'The receiver answers'
          )
        }
      >
        <CircuitSwitch state={circuit.state} tone={circuitTone} />
      </Stage>
      <Stage
        name="In flight"
        value={
          <>
            {figure(inFlight)} <span class="of">of {figure(cap)}</span>
          </>
        }
        tone={!isIdle && stopped('flight') ? 'wait' : undefined}
        note={
          live === null
            ? 'Asleep until something is due'
            : live.pace
              ? `${perSecond(live.pace)} recently`
              : 'No attempt recently'
        }
      >
        <Slots used={inFlight} cap={cap} />
      </Stage>
    </ol>
  )
}

function rateOf({ throttleRate, throttlePeriodSeconds }: LaneOut['limits']): number | null {
  return throttleRate === null ? null : throttleRate / throttlePeriodSeconds
}

/** Deliveries by class: fresh ones, retries, replays. */
function QueueBar({ waiting }: { waiting: LaneOut['waiting'] }) {
  const parts = [
    ['fresh', waiting.fresh],
    ['retry', waiting.timed],
    ['replay', waiting.replay],
  ] as const
  return (
    <span class="queue-bar">
      <span class="bar">
        {parts.map(([name, count]) => count > 0 && <i key={name} class={name} style={{ flexGrow: count }} />)}
      </span>
      <span class="keys">
        {parts.map(([name, count]) => (
          <span key={name} class={count === 0 ? 'none' : undefined}>
            <i class={name} />
            {name} {figure(count)}
          </span>
        ))}
      </span>
    </span>
  )
}

function Meter({ share }: { share: number }) {
  return (
    <span class="meter">
      <i style={{ width: `${Math.min(100, Math.round(share * 100))}%` }} />
    </span>
  )
}

/** Slots as squares, up to 48 of them. */
function Slots({ used, cap }: { used: number; cap: number }) {
  const shown = Math.min(cap, 48)
  const filled = cap <= 48 ? used : Math.ceil((used / cap) * 48)
  return (
    <span class="slots">
      {Array.from({ length: shown }, (_, i) => (
        <i key={i} class={i < filled ? 'used' : undefined} />
      ))}
    </span>
  )
}

function CircuitSwitch({ state, tone }: { state: LaneOut['circuit']['state']; tone: Tone }) {
  return (
    <svg class="switch" data-tone={tone} viewBox="0 0 120 24" aria-hidden="true">
      <path d="M0 12h42M78 12h42" />
      <circle cx="44" cy="12" r="3.5" />
      <circle cx="76" cy="12" r="3.5" />
      <path class="arm" d={state === 'closed' ? 'M44 12h32' : state === 'open' ? 'M44 12 70 1' : 'M44 12 74 7'} />
    </svg>
  )
}
