import type { Identity } from '../../domain/ids.ts'
import type { Publication } from '../publishing.ts'
import { integers } from './arrays.ts'
import { type Run, statement } from './sessions.ts'

const insertPayloadEnds = statement(
  'insert-payload-ends',
  `
    insert into payload_end (message, app, at)
    select message, app, at from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as ending (message, app, at)`,
)

/** Whether a message's body goes before it does. */
export function endsEarly({ payloadForMs }: Publication): boolean {
  return payloadForMs != null
}

/** Notes until when the bodies of those that were accepted are kept. */
export async function keepPayloadEnds(
  run: Run,
  publications: readonly Publication[],
  identities: readonly Identity[],
  accepted: ReadonlySet<number>,
  now: number,
): Promise<void> {
  const ending = publications.flatMap(({ app, delayMs, payloadForMs }, i) => {
    const { key } = identities[i] as Identity
    const at = now + Math.ceil(Math.max(0, delayMs)) + Math.ceil(payloadForMs ?? 0)
    return payloadForMs == null || !accepted.has(key) ? [] : [{ key, app, at }]
  })
  await run(insertPayloadEnds, [
    integers(ending.map(({ key }) => key)),
    integers(ending.map(({ app }) => app)),
    integers(ending.map(({ at }) => at)),
  ])
}
