import type { Thing } from '../noun/noun.ts'
import { schedule } from './schedules/noun.ts'
import { source } from './sources/noun.ts'
import { view } from './views/noun.ts'

/**
 * The nouns whose things have ids, by their names in paths and in types. From this list are made: lookups of paths, parameters
 * of the reference, rules of uids, the audit log, sealing under another key, removal with an application, and completion.
 */
export const nouns = { schedule, source, view } as const

export type NounName = keyof typeof nouns
/** Their things. */
export type NounThings = { readonly [Name in NounName]: Thing<(typeof nouns)[Name]> }

export type NounPrefix = (typeof nouns)[NounName]['prefix']

export const nounNames = Object.keys(nouns) as NounName[]
