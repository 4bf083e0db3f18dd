import { type Item, pathOf } from '../../cli/client.ts'
import type { RemoteCommands, Session } from '../../cli/command.ts'
import { facts, instant, text, waitingText, wordOf } from '../../cli/table.ts'
import { stateColour, stateText } from '../endpoints/terminal.ts'

/** `sluice lane`: the queue of an endpoint. */
export function addLane(commands: RemoteCommands): void {
  const show = commands.add(
    'lane <app> <endpoint>',
    "show an endpoint's queue: its worker, waiting deliveries and limits",
    async (session, [app, endpoint]) => {
      const lane = await session.client.get(pathOf('app', app, 'endpoint', endpoint, 'lane'))
      session.show(lane, () => describe(session, lane))
    },
  )
  for (const [action, summary, done] of [
    ['retry', 'retry the delivery that blocks the queue, with all its attempts', 'is retried'],
    ['skip', 'make the delivery that blocks the queue a dead letter', 'becomes a dead letter'],
  ] as const) {
    commands
      .below(show)
      .add(`${action}-head <app> <endpoint> [msg]`, summary, async (session, [app, endpoint, messageId]) => {
        const path = pathOf('app', app, 'endpoint', endpoint, 'lane', 'head', action)
        const head = await session.client.post(path, { body: { messageId } })
        session.show(head, () => `${text(head.messageId)} ${done} as soon as a worker has the lane.`)
      })
  }
}

function describe({ terminal }: Session, lane: Item): string {
  const { owner, waiting, limits, live } = lane as Record<string, Item>
  const { fresh, timed, replay } = waiting ?? {}
  const until = (value: unknown) => (value == null ? undefined : instant(value))
  return facts(terminal, [
    ['state', terminal.style(stateColour(lane), stateText(lane))],
    ['condition', wordOf(lane.condition)],
    ['waiting', `${waitingText(waiting ?? {})} (fresh ${fresh}, timed ${timed}, replay ${replay})`],
    ['forecast', text((lane.forecast as Item).sentence)],
    ['owner', owner == null ? 'none' : text(owner.description)],
    ['region', text(lane.region)],
    ['workers', `${text(lane.workersAlive)} alive, ${text(lane.workersServing)} of them serve the region`],
    ['in flight', live == null ? undefined : `${live.inFlight} of ${live.concurrency}`],
    ['pace', live?.pace == null ? undefined : `${text(live.pace)} a second recently`],
    ['next token', until(live?.nextTokenAt)],
    ['crowded', live?.crowded == null ? undefined : crowdText(live)],
    ['standstill', live?.standstill == null ? undefined : text(live.standstill)],
    ['oldest', lane.oldestSince == null ? undefined : instant(lane.oldestSince)],
    ['circuit', circuitText(lane.circuit as Item | undefined)],
    ['slowed to', lane.slowedTo == null ? undefined : `${text(lane.slowedTo)} a second, climbing back`],
    ['failing since', until(lane.failingSince)],
    ['held until', until(lane.heldUntil)],
    ['rate limited until', until(lane.rateLimitedUntil)],
    ['next due', until(lane.dueAt)],
    ['next timed', until(lane.nextTimedAt)],
    ['rate', limits?.throttleRate == null ? '–' : rateText(limits)],
    ['burst', `${text(limits?.burst)}${sourceText(limits?.burstFrom)}`],
    ['concurrency', text(limits?.concurrency)],
    ['as of', instant(lane.asOf)],
  ])
}

function rateText({ throttleRate, throttlePeriodSeconds, rateFrom }: Item): string {
  return `${text(throttleRate)} in ${text(throttlePeriodSeconds)} s${sourceText(rateFrom)}`
}

/** Where a limit comes from that the endpoint does not set itself. */
function sourceText(from: unknown): string {
  return from == null || from === 'endpoint' ? '' : ` (default of the ${text(from)})`
}

/** The slots that are all in use. */
function crowdText({ crowded, application, process }: Item): string {
  const { inFlight, limit } = (crowded === 'process' ? process : application) as Item
  return `${text(crowded)}: ${text(inFlight)} of ${text(limit)} slots`
}

/** The state of the circuit; undefined when it is closed without failures. */
function circuitText({ state, openUntil, manual, failures }: Item = {}): string | undefined {
  if (state === 'half_open') return 'half open: one probe decides'
  if (state === 'open') return manual === true ? 'opened by an operator' : `open until ${instant(openUntil)}`
  return failures === 0 || failures == null ? undefined : `closed, ${text(failures)} failures in a row`
}

/** `sluice circuit`: opens and closes an endpoint's circuit by hand. */
export function addCircuit(commands: RemoteCommands): void {
  const circuit = commands.group('circuit', "an endpoint's circuit: open, close, reset")
  for (const [action, summary, done] of [
    [
      'open',
      'send nothing to an endpoint until its circuit is closed',
      (names: string) => `is open. Deliveries wait until \`sluice circuit close ${names}\``,
    ],
    [
      'close',
      'send again, at a rate that climbs back to normal',
      () => 'is closed. Waiting deliveries are sent at a climbing rate',
    ],
    ['reset', 'send again at full rate, and clear its failures', () => 'is closed, and its failures are cleared'],
  ] as const) {
    circuit.add(`${action} <app> <endpoint>`, summary, async (session, [app, ref]) => {
      const path = pathOf('app', app, 'endpoint', ref, 'circuit', action)
      const endpoint = await session.client.post(path, { body: {} })
      session.show(endpoint, () => `The circuit of ${ref} ${done(`${app} ${ref}`)}.`)
    })
  }
}
