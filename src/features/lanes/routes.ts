import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import { manage, view } from '../../operations/access.ts'
import { closed, endpointId, maybe, nullable, shortText, text } from '../../operations/fields.ts'
import { lookUp } from '../../operations/lookup.ts'
import { type Noun, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { FrontCommand } from '../../store/lanes.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { LaneOut, toLaneOut } from './schemas.ts'

/** The delivery of an ordered lane that a command is for; the first in the queue by default. */
const HeadIn = Type.Object(
  {
    messageId: maybe(
      shortText(256),
      'Delivery that is meant; the first in the queue by default. Required where each key has its own queue.',
    ),
  },
  closed,
)

const HeadOut = Type.Object({
  endpointId,
  messageId: nullable(text('Null when the message no longer exists.')),
  order: Type.Enum(['retry', 'skip'], { description: 'The command.' }),
})

/** Commands the worker that owns the lane to retry or skip the delivery that blocks the others. */
function headRoute(command: FrontCommand, summary: string, description: string) {
  return route(`POST /app/:app/endpoint/:endpoint/lane/head/${command}`, manage, {
    id: `v1.lane.${command}-head`,
    summary,
    description,
    body: HeadIn,
    answers: { 202: HeadOut },
    handle: async ({ app, endpoint, body }, { store }) => {
      assertOrdered(endpoint, body)
      const { messageId: ref = null } = body
      const find = (name: string) => store.findMessage(app.key, name)
      const named = ref === null ? null : await lookUp('message', ref, find)
      const answer = await store.commandFront(endpoint.key, named?.key ?? null, command)
      if (answer.state === 'none') throw new AppError('not_found', 'No such delivery waits in this lane.')
      if (answer.state === 'busy') {
        const message = 'The delivery does not wait for a retry: a worker sends it, or it waits for its turn.'
        throw new AppError('conflict', message)
      }
      const [message] = named ? [named] : await store.loadMessages([answer.message])
      return { endpointId: endpoint.id, messageId: message?.id ?? null, order: command }
    },
  })
}

function assertOrdered({ flow }: Endpoint, { messageId }: Static<typeof HeadIn>): void {
  if (flow.order === 'none') throw new AppError('conflict', 'The endpoint is not ordered: no delivery blocks others.')
  if (flow.order === 'fifo' || messageId != null) return
  refuseIf([{ at: ['body', 'messageId'], message: 'is required where each key has its own queue', type: 'required' }])
}

export const lanes = {
  tag: 'Lane',
  description: "The state of an endpoint's queue, and why a message has not been delivered yet.",
  schemas: { LaneOut, HeadIn, HeadOut },
  routes: [
    route('GET /app/:app/endpoint/:endpoint/lane', view, {
      id: 'v1.lane.get',
      summary: "Get the state of an endpoint's lane",
      answers: { 200: LaneOut },
      handle: async ({ endpoint }, { explainer }) => toLaneOut(await explainer.endpoint(endpoint)),
    }),
    headRoute(
      'retry',
      'Retry the delivery that blocks the others',
      'In an ordered lane: at once, and with all its attempts. Without `messageId`, the first in the queue. The worker that owns the lane carries it out.',
    ),
    headRoute(
      'skip',
      'Skip the delivery that blocks the others',
      'It becomes a dead letter, which can be replayed. Without `messageId`, the first in the queue. The worker that owns the lane carries it out.',
    ),
  ],
} satisfies Noun
