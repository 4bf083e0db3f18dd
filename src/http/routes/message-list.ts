import type { FastifyInstance } from 'fastify'
import type { MessageHead } from '../../domain/delivery.ts'
import { decodeKey } from '../../domain/ids.ts'
import { isOpen, meetsFilter } from '../../domain/message-filter.ts'
import type { HttpContext } from '../context.ts'
import { jsonType } from '../json-bytes.ts'
import { getApplication, getMessage } from '../lookup.ts'
import { writePage } from '../page.ts'
import { messagesAsBytes } from '../payload.ts'
import { keyRangeOf, readTimes } from '../schemas/instant.ts'
import { MessageListQuery, toMessageFilter } from '../schemas/message-list.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const listProblems = compile(MessageListQuery, 'query')

/** Looking through an application's messages, and erasing what one of them said. */
export function messageListRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  api.get<{ Params: { app: string } }>('/app/:app/msg', async (request, reply) => {
    const query = readQuery(MessageListQuery, request.query)
    refuseIf(listProblems(query))
    const asked = query as MessageListQuery
    const range = keyRangeOf(readTimes(asked, clock.now()))
    const filter = toMessageFilter(asked)
    const { key: app } = await getApplication(store, request.params.app)
    const withContent = asked.with_content ?? true
    reply.type(jsonType)
    return writePage(
      clock,
      asked,
      {
        read: (after: number | null, order, limit) => store.listMessages(app, { ...range, after, order, limit }),
        keep: async (rows) => rows.filter((row) => meetsFilter(row, filter)).map((row) => ({ row })),
        keepsAll: isOpen(filter),
        bytesOf: ({ row }) => (withContent ? row.bytes : 0),
        positionOf: ({ key }: MessageHead) => key,
        write: ({ id }) => id,
        parse: (text) => decodeKey('msg', text),
      },
      (items) =>
        messagesAsBytes(
          store,
          items.map(({ row }) => row),
          withContent,
        ),
    )
  })

  api.delete<{ Params: { app: string; message: string } }>('/app/:app/msg/:message/content', async (request, reply) => {
    const { key } = await getMessage(store, request.params.app, request.params.message)
    await store.expungeMessage(key)
    return reply.code(204).send()
  })
}
