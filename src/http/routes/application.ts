import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import type { Application } from '../../domain/endpoint.ts'
import type { Caller } from '../access.ts'
import type { HttpContext } from '../context.ts'
import { getApplication, isRef } from '../lookup.ts'
import { PageQuery, paginate } from '../page.ts'
import {
  ApplicationIn,
  ApplicationPatch,
  signatureHeaderProblems,
  toApplicationChange,
  toApplicationOut,
  toApplicationReplacement,
  toNewApplication,
} from '../schemas/application.ts'
import { metadataProblems } from '../schemas/field.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

export const CreateQuery = Type.Object({ get_if_exists: Type.Optional(Type.Boolean()) })

const bodyProblems = compile(ApplicationIn, 'body')
const patchProblems = compile(ApplicationPatch, 'body')
const createQueryProblems = compile(CreateQuery, 'query')
const pageProblems = compile(PageQuery, 'query')

interface OfApplication {
  Params: { app: string }
}

/** Applications: create, list, get, replace, change, delete. */
export function applicationRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.post('/app', async (request, reply) => {
    const query = readQuery(CreateQuery, request.query)
    refuseIf([...createQueryProblems(query), ...bodyProblems(request.body)])
    const input = request.body as ApplicationIn
    refuseIf([...metadataProblems(input.metadata), ...signatureHeaderProblems(input)])
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

  api.put<OfApplication>('/app/:app', async (request, reply) => {
    refuseIf(bodyProblems(request.body))
    const input = request.body as ApplicationIn
    refuseIf([...metadataProblems(input.metadata), ...signatureHeaderProblems(input)])
    refuseRenaming(request.caller, input)
    const { application, created } = await put(request.params.app, input)
    return reply.code(created ? 201 : 200).send(toApplicationOut(application))
  })

  api.patch<OfApplication>('/app/:app', async (request) => {
    const { key } = await getApplication(store, request.params.app)
    refuseIf(patchProblems(request.body))
    const input = request.body as ApplicationPatch
    refuseIf([...metadataProblems(input.metadata), ...signatureHeaderProblems(input)])
    refuseRenaming(request.caller, input)
    const after = await store.updateApplication(key, toApplicationChange(input))
    // Gone between the two: the same answer as a moment later.
    return toApplicationOut(after ?? (await getApplication(store, request.params.app)))
  })

  api.delete<OfApplication>('/app/:app', async (request, reply) => {
    const { key } = await getApplication(store, request.params.app)
    await store.deleteApplication(key)
    return reply.code(204).send()
  })

  /** Replaces the application, or makes one whose uid is the name it was asked for by. */
  async function put(ref: string, input: ApplicationIn): Promise<{ application: Application; created: boolean }> {
    const replaced = await replace(ref, input)
    if (replaced) return { application: replaced, created: false }
    if (!isRef(ref) || ref.startsWith('app_')) throw new AppError('not_found', 'There is no such application.')
    try {
      const made = toNewApplication({ ...input, uid: input.uid ?? ref })
      return { application: await store.createApplication(made), created: true }
    } catch (error) {
      // Between looking and creating, another caller may have created it.
      const other = error instanceof AppError && error.code === 'conflict' ? await replace(ref, input) : undefined
      if (other === undefined) throw error
      return { application: other, created: false }
    }
  }

  async function replace(ref: string, input: ApplicationIn): Promise<Application | undefined> {
    const known = isRef(ref) ? await store.findApplication(ref) : undefined
    return known && store.updateApplication(known.key, toApplicationReplacement(input))
  }

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

/**
 * Refuses another uid from a caller bound to one application, taken or not: the answer would tell which applications
 * exist beside its own.
 */
function refuseRenaming(caller: Caller | null, { uid }: ApplicationPatch): void {
  if (caller?.app == null || uid == null || uid === caller.app.uid) return
  throw new AppError('insufficient_access', 'A key of one application cannot change its uid; use a key for all.')
}
