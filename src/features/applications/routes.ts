import { Type } from 'typebox'
import { AppError, type FieldError, noSuch } from '../../domain/app-error.ts'
import { pointerDepthLimit, readPointer } from '../../json/pointer.ts'
import { admin, type Caller, read, view } from '../../operations/access.ts'
import {
  closed,
  createdAt,
  described,
  displayName,
  iso,
  listOf,
  maybe,
  metadataProblems,
  nullable,
  optional,
  schemaOf,
  text,
} from '../../operations/fields.ts'
import { found, isRef, lookUp, newUid } from '../../operations/lookup.ts'
import { byId, byName, PageQuery, paginate } from '../../operations/page.ts'
import { type Noun, type Out, Reply, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Region } from '../../store/configuration.ts'
import type { PageRequest, Store } from '../../store/store.ts'
import { endpointFields } from '../endpoints/noun.ts'
import { templateProblems } from '../endpoints/problems-service.ts'
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

const generatedBytes = 32

const RegionIn = Type.Object(
  {
    name: described(Type.Unsafe<string>(schemaOf(endpointFields.region.kind)), 'Name that endpoints refer to.'),
    secret: maybe(
      Type.String({ minLength: 16, maxLength: 256, pattern: '^[\\x21-\\x7e]+$' }),
      'Secret that makes the pseudonyms, in visible ASCII; generated by default.',
    ),
  },
  closed,
)

const RegionOut = Type.Object({
  name: text('Name that endpoints refer to.'),
  createdAt,
})

const RegionCreatedOut = Type.Object({
  ...RegionOut.properties,
  secret: optional(Type.String(), 'The generated secret; shown only once.'),
})

function toRegionOut({ name, createdAt }: Region): Out<typeof RegionOut> {
  return { name, createdAt: iso(createdAt) }
}

export const regions = {
  tag: 'Region',
  description:
    'The secrets of an application by region. Pseudonyms in the payloads of its endpoints are made with them.',
  schemas: { RegionIn, RegionOut, RegionCreatedOut },
  routes: [
    route('GET /app/:app/region', read, {
      id: 'v1.region.list',
      summary: 'List the regions that an application has a secret of',
      query: PageQuery,
      answers: { 200: listOf(RegionOut) },
      handle: ({ app, query }, { store, clock }) => {
        const list = (page: PageRequest<string>) => store.listRegions(app.key, page)
        return paginate(clock, { order: 'ascending', ...query }, { ...byName('region'), list, toOut: toRegionOut })
      },
    }),
    route('POST /app/:app/region', admin, {
      id: 'v1.region.create',
      summary: 'Create the secret of a region',
      description:
        'Endpoints in a region get pseudonyms made with its secret: the same for the same value at the same endpoint, and unlike those of any other endpoint or region.',
      body: RegionIn,
      answers: { 201: RegionCreatedOut },
      answersSecret: true,
      handle: async ({ app, body: { name, secret } }, { store, randomBytes }) => {
        const made = secret ?? `rgn_${Buffer.from(randomBytes(generatedBytes)).toString('base64url')}`
        const region = await store.createRegion(app.key, name, made)
        return { ...toRegionOut(region), ...(secret == null && { secret: made }) }
      },
    }),
    route('DELETE /app/:app/region/:region', admin, {
      id: 'v1.region.delete',
      summary: 'Delete the secret of a region',
      description:
        'Refused while an endpoint gets pseudonyms made with it. Its pseudonyms cannot be made again without the secret.',
      answers: { 204: null },
      handle: async ({ app, params: { region } }, { store }) => {
        if (!isRef(region) || !(await store.deleteRegion(app.key, region))) throw noSuch('region', region)
      },
    }),
  ],
} satisfies Noun

/** Large enough for a sharp logo, small enough to come with every page. */
const longestLogo = 48 * 1024
/** Images alone. A page shows it as an image, in which an SVG runs no script and loads nothing. */
const logoPattern = '^data:image/(png|jpeg|gif|webp|svg\\+xml);base64,[A-Za-z0-9+/]+={0,2}$'

const PortalLookIn = Type.Object(
  {
    name: maybe(displayName(100), "Heading of the portal; the application's name by default."),
    logo: maybe(
      Type.String({ maxLength: longestLogo, pattern: logoPattern }),
      'Logo as a `data:` URL with base64: PNG, JPEG, GIF, WebP or SVG, up to 48 KiB. Null for none.',
    ),
    color: maybe(Type.String({ pattern: '^#[0-9a-fA-F]{6}$' }), 'Colour of buttons and links, such as `#3b5bdb`.'),
  },
  closed,
)

const PortalLookOut = Type.Object({
  name: text("Heading of the portal; the application's name unless another is set."),
  logo: nullable(text('Logo as a `data:` URL.')),
  color: nullable(text('Colour of buttons and links, such as `#3b5bdb`.')),
})

export const portal: Noun = {
  tag: 'Portal',
  description: "The look of an application's portal.",
  schemas: { PortalLookIn, PortalLookOut },
  routes: [
    route('GET /app/:app/portal', view, {
      id: 'v1.portal.get',
      summary: "Get the look of an application's portal",
      answers: { 200: PortalLookOut },
      handle: async ({ app }, { store }) => {
        const look = await store.findPortalLook(app.key)
        return { name: look?.name ?? app.name, logo: look?.logo ?? null, color: look?.color ?? null }
      },
    }),
    route('PUT /app/:app/portal', admin, {
      id: 'v1.portal.set',
      summary: "Set the look of an application's portal",
      description: 'Replaces the whole look: a field that is left out is unset.',
      body: PortalLookIn,
      answers: { 200: PortalLookOut },
      handle: async ({ app, body: { name = null, logo = null, color = null } }, { store }) => {
        if (!(await store.setPortalLook(app.key, { name, logo, color }))) throw noSuch('application', app.id)
        return { name: name ?? app.name, logo, color }
      },
    }),
  ],
}
