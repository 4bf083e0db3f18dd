import type { FastifyInstance } from 'fastify'
import { openApiDocument } from '../operations/openapi/document.ts'
import { pagePolicy, renderPage } from './docs-page.ts'

/** The reference to read. */
export function docsRoute(app: FastifyInstance): void {
  let page: string | undefined
  app.get('/docs', (_request, reply) => {
    page ??= renderPage(openApiDocument())
    reply
      .header('content-type', 'text/html; charset=utf-8')
      .header('content-security-policy', pagePolicy)
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
      .send(page)
  })
}
