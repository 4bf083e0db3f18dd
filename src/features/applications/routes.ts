import { Type } from 'typebox'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { pointerDepthLimit, readPointer } from '../../json/pointer.ts'
import { admin, type Caller, read, view } from '../../operations/access.ts'
import { closed, listOf, metadataProblems, optional } from '../../operations/fields.ts'
import { found, lookUp, newUid } from '../../operations/lookup.ts'
import { byId, paginate } from '../../operations/page.ts'
import { templateProblems } from '../../operations/problems.ts'
import { type Noun, Reply, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import { ApplicationQuery, applicationFilter } from './filter-service.ts'
import {
  ApplicationIn,
  ApplicationOut,
  ApplicationPatch,
  signatureHeaderProblems,
  toApplicationChange,
  toApplicationOut,
  toApplicationReplacement,
  toNewApplication,
} from './schemas.ts'

const CreateQuery = Type.Object(
  {
    get_if_exists: optional(
      Type.Boolean(),
      'Whether an existing application with the uid is answered instead of a conflict.',
    ),
  },
  closed,
)

function subjectProblems(pointers: readonly string[] | null | undefined): FieldError[] {
  const message = `must be a JSON pointer of at most ${pointerDepthLimit} steps, such as /user/id`
  return (pointers ?? []).flatMap((text, i) =>
    readPointer(text) === undefined ? [{ at: ['body', 'subjectPointers', i], message, type: 'pointer' }] : [],
  )
}

function refuseProblems(input: ApplicationPatch): void {
  refuseIf([
    ...metadataProblems(input.metadata),
    ...signatureHeaderProblems(input),
    ...templateProblems(input.headerTemplates),
    ...subjectProblems(input.subjectPointers),
  ])
}

export const applications = {
  tag: 'Application',
  description: 'One tenant: it owns endpoints and messages.',
  schemas: { ApplicationIn, ApplicationPatch, ApplicationOut },
  routes: [
    route('GET /app', read, {
      id: 'v1.application.list',
      summary: 'List applications',
      query: ApplicationQuery,
      answers: { 200: listOf(ApplicationOut) },
      handle: async ({ query }, { store, clock }) => {
        const listed = { ...byId('app'), list: store.listApplications, toOut: toApplicationOut }
        const filter = applicationFilter(store, clock, query)
        return paginate(clock, { order: 'ascending', ...query }, { ...listed, ...filter })
      },
    }),
    route('POST /app', admin, {
      id: 'v1.application.create',
      summary: 'Create an application',
      description: 'With `get_if_exists`, an application that already has the uid is answered with 200.',
      query: CreateQuery,
      body: ApplicationIn,
      answers: { 200: ApplicationOut, 201: ApplicationOut },
      handle: async ({ query, body }, { store }) => {
        refuseProblems(body)
        const { application, created } = await create(store, body, query.get_if_exists ?? false)
        return new Reply(created ? 201 : 200, toApplicationOut(application))
      },
    }),
    route('GET /app/:app', view, {
      id: 'v1.application.get',
      summary: 'Get an application',
      answers: { 200: ApplicationOut },
      handle: ({ app }) => toApplicationOut(app),
    }),
    route('PUT /app/:app', admin, {
      id: 'v1.application.update',
      summary: 'Replace an application, or create it',
      description: 'Absent fields return to their defaults; the uid stays.',
      body: ApplicationIn,
      answers: { 200: ApplicationOut, 201: ApplicationOut },
      lookup: 'upsert',
      handle: async ({ app, params, body, request }, { store }) => {
        refuseProblems(body)
        refuseRenaming(request.caller, body)
        const replaced = app && (await store.updateApplication(app.key, toApplicationReplacement(body)))
        if (replaced) return toApplicationOut(replaced)
        const { application, created } = await createNamed(store, params.app, body)
        return new Reply(created ? 201 : 200, toApplicationOut(application))
      },
    }),
    route('PATCH /app/:app', admin, {
      id: 'v1.application.patch',
      summary: 'Change some fields of an application',
      description: 'Absent fields stay; null unsets.',
      body: ApplicationPatch,
      answers: { 200: ApplicationOut },
      handle: async ({ app, params, body, request }, { store }) => {
        refuseProblems(body)
        refuseRenaming(request.caller, body)
        const changed = await store.updateApplication(app.key, toApplicationChange(body))
        return toApplicationOut(found(changed, 'application', params.app))
      },
    }),
    route('DELETE /app/:app', admin, {
      id: 'v1.application.delete',
      summary: 'Delete an application with its endpoints',
      description: 'Deliveries that have not ended are cancelled, and the uid is free again.',
      answers: { 204: null },
      handle: ({ app }, { store }) => store.deleteApplication(app.key),
    }),
  ],
} satisfies Noun

/**
 * Refuses another uid from a caller bound to one application, taken or not: the answer would show which applications
 * exist beside its own.
 */
function refuseRenaming(caller: Caller | null, { uid }: ApplicationPatch): void {
  if (caller?.app == null || uid == null || uid === caller.app.uid) return
  throw new AppError('insufficient_access', 'A key of one application cannot change its uid; use a key for all.')
}

/** Creates the application whose uid is the name in the path. Another caller may create it first; it is replaced then. */
async function createNamed(store: Store, uid: string, input: ApplicationIn) {
  newUid('application', 'app', uid)
  try {
    const made = toNewApplication({ ...input, uid: input.uid ?? uid })
    return { application: await store.createApplication(made), created: true }
  } catch (error) {
    const other = isConflict(error) ? await store.findApplication(uid) : undefined
    const replaced = other && (await store.updateApplication(other.key, toApplicationReplacement(input)))
    if (replaced === undefined) throw error
    return { application: replaced, created: false }
  }
}

/** Creates an application. Another caller may create it first; with `getIfExists` it is the answer then. */
async function create(store: Store, input: ApplicationIn, getIfExists: boolean) {
  const known = getIfExists && input.uid ? await store.findApplication(input.uid) : undefined
  if (known) return { application: known, created: false }
  try {
    return { application: await store.createApplication(toNewApplication(input)), created: true }
  } catch (error) {
    if (!getIfExists || !isConflict(error)) throw error
    return { application: await lookUp('application', input.uid ?? '', store.findApplication), created: false }
  }
}

function isConflict(error: unknown): boolean {
  return error instanceof AppError && error.code === 'conflict'
}
