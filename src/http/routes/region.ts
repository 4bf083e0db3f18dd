import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { Region } from '../../store/regions.ts'
import type { HttpContext } from '../context.ts'
import { getApplication, isRef } from '../lookup.ts'
import { PageQuery, paginateBy } from '../pagination.ts'
import { RegionIn, toRegionOut } from '../schemas/region.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfApplication {
  Params: { app: string }
}
interface OfRegion {
  Params: { app: string; region: string }
}

const inProblems = compile(RegionIn, 'body')
const pageProblems = compile(PageQuery, 'query')
const generatedBytes = 32

/** A name may begin with a minus, which in an iterator means backwards; so an iterator says what it is. */
const iterators = {
  keyOf: (text: string) => (text.startsWith('region_') ? text.slice('region_'.length) : undefined),
  iteratorOf: ({ name }: Region) => `region_${name}`,
}

/** Regions: create, list, delete. */
export function regionRoutes(api: FastifyInstance, { store, randomBytes }: HttpContext): void {
  api.post<OfApplication>('/app/:app/region', { config: { answersSecret: true } }, async (request, reply) => {
    const { key } = await getApplication(store, request.params.app)
    refuseIf(inProblems(request.body))
    const { name, secret } = request.body as RegionIn
    const made = secret ?? `rgn_${Buffer.from(randomBytes(generatedBytes)).toString('base64url')}`
    const region = await store.createRegion(key, name, made)
    return reply.code(201).send({ ...toRegionOut(region), ...(secret == null && { secret: made }) })
  })

  api.get<OfApplication>('/app/:app/region', async (request) => {
    const query = readQuery(PageQuery, request.query)
    refuseIf(pageProblems(query))
    const { key } = await getApplication(store, request.params.app)
    const list = (page: Parameters<typeof store.listRegions>[1]) => store.listRegions(key, page)
    return paginateBy(iterators, query as PageQuery, 'ascending', list, toRegionOut)
  })

  api.delete<OfRegion>('/app/:app/region/:region', async (request, reply) => {
    const { key } = await getApplication(store, request.params.app)
    const { region } = request.params
    if (!isRef(region) || !(await store.deleteRegion(key, region))) {
      throw new AppError('not_found', 'There is no such region.')
    }
    return reply.code(204).send()
  })
}
