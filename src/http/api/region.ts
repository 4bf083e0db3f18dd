import { Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import type { Region } from '../../store/applications.ts'
import { admin, read } from '../access.ts'
import { Instant, listOf } from '../answers/field.ts'
import { iso, maybe } from '../fields.ts'
import { isRef } from '../lookup.ts'
import { PageQuery, paginateBy } from '../page.ts'
import { type Noun, type Out, route } from '../route.ts'
import { regionName } from '../schemas/shaping.ts'

const generatedBytes = 32

const RegionIn = Type.Object({
  name: regionName,
  secret: maybe(
    Type.String({
      minLength: 16,
      maxLength: 256,
      pattern: '^[\\x21-\\x7e]+$',
      description: 'What its pseudonyms are made with, in visible ASCII; made unless told',
    }),
  ),
})

const RegionOut = Type.Object({
  name: Type.String({ description: 'What endpoints name it by' }),
  createdAt: Instant,
})

const RegionCreatedOut = Type.Object({
  ...RegionOut.properties,
  secret: Type.Optional(Type.String({ description: 'What was made for it; shown this once' })),
})

function toRegionOut({ name, createdAt }: Region): Out<typeof RegionOut> {
  return { name, createdAt: iso(createdAt) }
}

/** A name may begin with a minus, which in an iterator means backwards; so an iterator begins with its kind. */
const iterators = {
  keyOf: (text: string) => (text.startsWith('region_') ? text.slice('region_'.length) : undefined),
  iteratorOf: ({ name }: Region) => `region_${name}`,
}

export const regions: Noun = {
  tag: 'Region',
  description: 'A secret that pseudonyms in the payloads of its endpoints are made with.',
  schemas: { RegionIn, RegionOut, RegionCreatedOut },
  routes: [
    route({
      method: 'GET',
      path: '/app/:app/region',
      need: read,
      id: 'v1.region.list',
      summary: 'List regions',
      query: PageQuery,
      answers: { 200: listOf(RegionOut) },
      handle: ({ app, query }, { store }) =>
        paginateBy(iterators, query, 'ascending', (page) => store.listRegions(app.key, page), toRegionOut),
    }),
    route({
      method: 'POST',
      path: '/app/:app/region',
      need: admin,
      id: 'v1.region.create',
      summary: 'Create a region',
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
    route({
      method: 'DELETE',
      path: '/app/:app/region/:region',
      need: admin,
      id: 'v1.region.delete',
      summary: 'Delete a region',
      description: 'Refused while an endpoint is in it. Nobody can make its pseudonyms again without the secret.',
      answers: { 204: null },
      handle: async ({ app, params: { region } }, { store }) => {
        if (!isRef(region) || !(await store.deleteRegion(app.key, region))) throw noSuch('region', region)
      },
    }),
  ],
}
