import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import type { Application } from '../../domain/endpoint.ts'
import type { HttpContext } from '../context.ts'
import { getApplication } from '../lookup.ts'
import { PageQuery, paginate } from '../pagination.ts'
import { ApplicationIn, toApplicationOut, toNewApplication } from '../schemas/application.ts'
import { metadataProblems } from '../schemas/field.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

export const CreateQuery = Type.Object({ get_if_exists: Type.Optional(Type.Boolean()) })

const bodyProblems = compile(ApplicationIn, 'body')
const createQueryProblems = compile(CreateQuery, 'query')
const pageProblems = compile(PageQuery, 'query')

/** Applications: create, list, get. */
export function applicationRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.post('/app', async (request, reply) => {
    const query = readQuery(CreateQuery, request.query)
    refuseIf([...createQueryProblems(query), ...bodyProblems(request.body)])
    const input = request.body as ApplicationIn
    refuseIf(metadataProblems(input.metadata))
    const { get_if_exists: getIfExists = false } = query as Static<typeof CreateQuery>
    const { application, created } = await create(input, getIfExists)
    return reply.code(created ? 201 : 200).send(toApplicationOut(application))
  })

  api.get('/app', (request) => {
    const query = readQuery(PageQuery, request.query)
    refuseIf(pageProblems(query))
    return paginate('app', query as PageQuery, 'ascending', (page) => store.listApplications(page), toApplicationOut)
  })

  api.get<{ Params: { app: string } }>('/app/:app', async (request) => {
    return toApplicationOut(await getApplication(store, request.params.app))
  })

  async function create(
    input: ApplicationIn,
    getIfExists: boolean,
  ): Promise<{ application: Application; created: boolean }> {
    const known = getIfExists && input.uid ? await store.findApplication(input.uid) : undefined
    if (known) return { application: known, created: false }
    try {
      return { application: await store.createApplication(toNewApplication(input)), created: true }
    } catch (error) {
      // Between looking and creating, another caller may have created it.
      if (!getIfExists || !(error instanceof AppError) || error.code !== 'conflict') throw error
      return { application: await getApplication(store, input.uid ?? ''), created: false }
    }
  }
}
