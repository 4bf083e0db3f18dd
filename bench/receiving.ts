import type { Bench } from './bench.ts'
import { type Child, startChild } from './child.ts'
import type { LoadReport } from './load.ts'
import type { PathRecord, ReceiverCommands } from './receiver.ts'

/** The receiver, listening on one port per endpoint. */
export interface Receiving {
  readonly receiver: Child<ReceiverCommands>
  /** One per port, each with a path of its own: `http://127.0.0.1:PORT/0`, `/1`, … */
  readonly urls: readonly string[]
}

/** Starts the receiver for that many endpoints. */
export async function startReceiving(bench: Bench, endpoints: number): Promise<Receiving> {
  const receiver = startChild<ReceiverCommands>('receiver', bench.ends)
  const ports = await receiver.ask('listen', endpoints)
  return { receiver, urls: ports.map((port, i) => `http://127.0.0.1:${port}/${i}`) }
}

/** How long messages took from two starting points, in milliseconds, one value per delivery. */
export interface Journey {
  /** From when the publisher had its 202 in hand. A delivery that overtook the answer counts as 0. */
  readonly sinceAccepted: readonly number[]
  /** From when the publish was due to be sent. */
  readonly sinceSent: readonly number[]
  /** From when the publisher had its 202 in hand to when the receiver answered. */
  readonly untilAnswered: readonly number[]
}

/** Joins what was published with what arrived, by message id. */
export function journey(load: LoadReport, records: readonly PathRecord[]): Journey {
  const index = new Map(load.ids.map((id, i) => [id, i]))
  const sinceAccepted: number[] = []
  const sinceSent: number[] = []
  const untilAnswered: number[] = []
  for (const { ids, stamps, answered } of records) {
    for (let k = 0; k < ids.length; k++) {
      const i = index.get(ids[k] as string)
      if (i === undefined) continue // Left over from warming up.
      const at = stamps[k] as number
      sinceAccepted.push(Math.max(0, at - (load.acceptedAt[i] as number)))
      sinceSent.push(at - (load.sentAt[i] as number))
      untilAnswered.push((answered[k] as number) - (load.acceptedAt[i] as number))
    }
  }
  return { sinceAccepted, sinceSent, untilAnswered }
}

/** Fails unless every publish was accepted. */
export function assertAccepted({ accepted, refused }: LoadReport): void {
  if (Object.keys(refused).length > 0) {
    throw new Error(
      `${accepted} publishes were accepted, but others answered ${JSON.stringify(refused)} (status: count)`,
    )
  }
}
