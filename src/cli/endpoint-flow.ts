import type { Command as Commander } from 'commander'
import { span } from '../domain/phrases.ts'
import { duration } from '../runtime/setting-kinds.ts'
import type { Item } from './client.ts'
import { option, type Session } from './remote.ts'
import { printable, text } from './show.ts'

const day = 86_400_000

/** Adds the options for how an endpoint is treated beyond its rate. */
export function withFlow(command: Commander): Commander {
  return command
    .addOption(
      option(
        '--coalesce <DURATION>',
        'deliver only the newest of what is alike within this time; --unset coalesce turns it off',
        duration(2000, day),
      ),
    )
    .option('--coalesce-key <POINTER>', 'alike is what has the same value there, such as /video/id')
}

/** The same as fields of the API. */
export function flowOf({ options }: Session): Item {
  const { coalesce, coalesceKey } = options
  return {
    coalesce:
      coalesce === undefined && coalesceKey === undefined ? undefined : { windowMs: coalesce, key: coalesceKey },
  }
}

/** What an endpoint wants beyond its rate, for people; what is as by default is left out. */
export function flowFacts({ coalesce }: Item): [string, string | undefined][] {
  return [['coalesce', coalesce == null ? undefined : coalesceText(coalesce as Item)]]
}

function coalesceText({ windowMs, key }: Item): string {
  const kind = key == null ? 'event type' : `event type and ${printable(text(key))}`
  return `the newest of ${span(Number(windowMs))} by ${kind}`
}
