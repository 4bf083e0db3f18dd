import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import { toChange, toNew } from '../../noun/noun.ts'
import { schemasOf, toShown } from '../../noun/schemas.ts'
import { admin, read } from '../../operations/access.ts'
import { closed, id, listOf } from '../../operations/fields.ts'
import { found, lookUp } from '../../operations/lookup.ts'
import { byId, PageQuery, paginate } from '../../operations/page.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import { ownParts, type View, type ViewChange, view } from './noun.ts'

const { made, changed, shown } = schemasOf(view)
export const ViewIn = Type.Object(made, closed)
/** Changes a view: a field that is absent stays, null unsets. */
export const ViewPatch = Type.Object(changed, closed)
export const ViewOut = Type.Object({ id, ...shown })

function toViewOut(stored: View): Out<typeof ViewOut> {
  return { id: stored.id, ...toShown(view, stored) }
}

/** Problems of a filter with parts of the other list, which would show more than the operator asked for. */
function filterProblems(of: View['of'], filter: ViewChange['filter'] = {}): FieldError[] {
  const other = of === 'endpoints' ? 'dead-letters' : 'endpoints'
  const foreign = ownParts[other].filter((name) => filter[name as keyof typeof filter] != null)
  return foreign.map((name) => ({ at: ['body', name], message: `belongs to views of ${other}`, type: 'filter' }))
}

/** Refuses such parts, and an application that does not exist. */
async function refuseProblems(of: View['of'], body: Static<typeof ViewPatch>, store: Store): Promise<void> {
  refuseIf(filterProblems(of, toChange(view, body).filter))
  if (body.app != null) await lookUp('application', body.app, store.findApplication)
}

export const views = {
  tag: 'View',
  description: 'A name and a filter over endpoints or dead letters, saved for all operators of the server.',
  schemas: { ViewIn, ViewPatch, ViewOut },
  routes: [
    route('GET /view', read, {
      id: 'v1.view.list',
      summary: 'List views',
      query: PageQuery,
      answers: { 200: listOf(ViewOut) },
      handle: ({ query }, { store, clock }) =>
        paginate(clock, query, { ...byId('view'), list: store.listViews, toOut: toViewOut }),
    }),
    route('POST /view', admin, {
      id: 'v1.view.create',
      summary: 'Create a view',
      description: 'The dashboard lists it in its side bar. A server may have 500.',
      body: ViewIn,
      answers: { 201: ViewOut },
      handle: async ({ body }, { store }) => {
        await refuseProblems(body.of, body, store)
        return toViewOut(await store.createView(toNew(view, body)))
      },
    }),
    route('GET /view/:view', read, {
      id: 'v1.view.get',
      summary: 'Get a view',
      answers: { 200: ViewOut },
      handle: ({ view: stored }) => toViewOut(stored),
    }),
    route('PATCH /view/:view', admin, {
      id: 'v1.view.patch',
      summary: 'Change some fields of a view',
      description: 'Absent fields stay; null unsets.',
      body: ViewPatch,
      answers: { 200: ViewOut },
      handle: async ({ view: { key, id, of }, body }, { store }) => {
        await refuseProblems(of, body, store)
        return toViewOut(found(await store.updateView(key, toChange(view, body)), 'view', id))
      },
    }),
    route('DELETE /view/:view', admin, {
      id: 'v1.view.delete',
      summary: 'Delete a view',
      description: 'The endpoints or dead letters that it shows stay.',
      answers: { 204: null },
      handle: ({ view: { key } }, { store }) => store.deleteView(key),
    }),
  ],
} satisfies Noun
