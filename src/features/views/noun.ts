import { choice, display, list, seconds, text } from '../../domain/field.ts'
import { deadReasons } from '../../domain/judge.ts'
import { type Change, type New, noun, type Thing } from '../../noun/noun.ts'
import { uidField } from '../../noun/shared-fields.ts'

const day = 86_400

/** The orders of the list of endpoints. */
export const endpointSorts = ['created', 'waiting', 'oldest', 'failing'] as const

/** A name and a filter, saved by an operator for all operators of the server. */
export const view = noun({
  name: 'view',
  table: 'saved_view',
  prefix: 'view',
  examples: {
    uid: 'dead-in-eu',
    of: {
      create: { body: { uid: 'dead-in-eu', name: 'Dead in the EU', of: 'dead-letters', eventTypes: ['invoice.*'] } },
      patch: { body: { withinSeconds: 86_400 } },
    },
  },
  limit: { most: 500, things: 'views' },
  fields: {
    uid: uidField('view'),
    name: {
      kind: display(64),
      required: true,
      flag: '--name <TEXT>',
      description: 'Display name.',
      help: 'new display name',
    },
    of: {
      kind: choice(['endpoints', 'dead-letters']),
      required: true,
      fixed: true,
      flag: '--of <KIND>',
      description: 'The list that the view filters: `endpoints` or `dead-letters` of all applications.',
      help: 'the list to filter: endpoints or dead-letters',
    },
    app: {
      kind: text(1, 256),
      in: 'filter',
      flag: '--app <APP>',
      description: 'Only this application, by id or uid.',
    },
    search: {
      kind: text(1, 256),
      in: 'filter',
      flag: '--search <TEXT>',
      description: 'Of endpoints: only those whose id, uid, URL or description contains this text in any case.',
    },
    sort: {
      kind: choice(endpointSorts),
      in: 'filter',
      flag: '--sort <ORDER>',
      description:
        'Of endpoints: by creation, the newest first (default); or the worst first: `waiting`, `oldest` or `failing`.',
    },
    reason: {
      kind: choice(deadReasons),
      in: 'filter',
      flag: '--reason <REASON>',
      description: `Of dead letters: only those with this reason: ${deadReasons.map((word) => `\`${word}\``).join(', ')}.`,
    },
    eventTypes: {
      kind: list(text(1, 256), 100),
      in: 'filter',
      flag: '--event-type <TYPE>',
      description: 'Of dead letters: only those of these event types: names, groups such as `video.*`, or `*`.',
    },
    withinSeconds: {
      kind: seconds(60, 366 * day),
      in: 'filter',
      flag: '--within <DURATION>',
      description: 'Of dead letters: only those that died within this time before now.',
    },
  },
})

export type View = Thing<typeof view>
export type NewView = New<typeof view>
export type ViewChange = Change<typeof view>

/** The parts of a filter that only one of the lists has. */
export const ownParts = {
  endpoints: ['search', 'sort'],
  'dead-letters': ['reason', 'eventTypes', 'withinSeconds'],
} as const satisfies Readonly<Record<View['of'], readonly (keyof View['filter'])[]>>
