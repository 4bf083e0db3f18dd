import { hash } from 'node:crypto'
import { extname } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Folder, pagesFolder as programPages } from '../assets/assets.ts'
import { apiRoot, jsonType } from '../domain/api.ts'
import { noRoute } from '../domain/app-error.ts'
import { acceptedEncodings } from '../wire/accept-encoding.ts'

const html = 'text/html; charset=utf-8'
const types: Readonly<Record<string, string>> = {
  '.html': html,
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': jsonType,
  '.map': jsonType,
  '.webmanifest': 'application/manifest+json; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
}

/** The encodings that the build makes, best first, by the ending of the file. */
const encodings = { br: '.br', gzip: '.gz' } as const
type Encoding = keyof typeof encodings

/** One file of the build, with its bytes in each encoding. It is read at its first use. */
class PageFile {
  readonly type: string
  readonly #folder: Folder
  readonly #name: string
  readonly #encodings: readonly Encoding[]
  #read: { bytes: Buffer; etag: string; encoded: ReadonlyMap<Encoding, Buffer> } | undefined

  constructor(folder: Folder, name: string, encodings: readonly Encoding[]) {
    this.type = types[extname(name)] ?? 'application/octet-stream'
    this.#folder = folder
    this.#name = name
    this.#encodings = encodings
  }

  get content() {
    if (this.#read === undefined) {
      const bytes = this.#folder.read(this.#name)
      const pairs = this.#encodings.map((each) => [each, this.#folder.read(this.#name + encodings[each])] as const)
      this.#read = { bytes, etag: hash('sha256', bytes, 'base64url').slice(0, 22), encoded: new Map(pairs) }
    }
    return this.#read
  }
}

/** The files of the build by their path below `/`. A request names a file of this map or none: no path reaches the disk. */
type PageFiles = ReadonlyMap<string, PageFile>

export interface PageOptions {
  /** Origins that may show the portal in a frame. */
  readonly portalFrameAncestors: readonly string[]
  /** The folder of the built pages; undefined for the one that belongs to this program. */
  readonly pagesFolder?: string | undefined
}

/**
 * Serves the dashboard under `/`, the portal under `/portal`, the documentation under `/docs` and the reference of the API
 * under `/docs/reference`. A navigation to any other path below the first two answers the same page, whose script knows the
 * path. A file is read once, at its first request.
 */
export function pageAnswers({ portalFrameAncestors, pagesFolder }: PageOptions) {
  let found: PageFiles | undefined
  const files = () => {
    found ??= findFiles(programPages(pagesFolder))
    return found
  }
  const unframed = policyOf(["'none'"])
  const inPortal = portalFrameAncestors.length === 0 ? unframed : policyOf(portalFrameAncestors)
  const answerPage = (page: string, request: FastifyRequest, reply: FastifyReply) => {
    const file = files().get(page)
    reply
      .header('content-security-policy', page === '/portal.html' ? inPortal : unframed)
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
      .header('cross-origin-opener-policy', 'same-origin')
      .header('cross-origin-resource-policy', 'same-origin')
    if (file === undefined) reply.code(503).type(html).send(notBuilt)
    else send(file, 'no-cache', request, reply)
  }

  /** Answers a request that no route takes. Throws `not_found` when it asks for no page. */
  const answer = (request: FastifyRequest, reply: FastifyReply) => {
    const path = pathOf(request)
    const file = path.endsWith('.html') ? undefined : files().get(path)
    if (file !== undefined && isRead(request)) {
      reply
        .header('cross-origin-resource-policy', 'same-origin')
        .header('content-security-policy', "default-src 'none'")
      const isHashed = path.startsWith('/assets/')
      return send(file, isHashed ? 'public, max-age=31536000, immutable' : 'no-cache', request, reply)
    }
    if (isRead(request) && /^\/docs(\/|$)/.test(path)) return answerDocs(path, request, reply)
    if (!isNavigation(request) || /^\/(api|assets)(\/|$)/.test(path)) throw noRoute(request.method, request.url)
    answerPage(/^\/portal(\/|$)/.test(path) ? '/portal.html' : '/index.html', request, reply)
  }

  const answerDocs = (path: string, request: FastifyRequest, reply: FastifyReply) => {
    const name = path.replace(/\/$/, '')
    const page = name === '/docs' ? '/docs/index.html' : name === '/docs/reference' ? '/reference.html' : `${name}.html`
    if (files().has(page) || files().size === 0) return answerPage(page, request, reply)
    reply.code(404)
    answerPage('/docs/404.html', request, reply)
  }

  return {
    answer,
    declare(app: FastifyInstance): void {
      const pages = { '/': '/index.html', '/portal': '/portal.html', '/docs': '/docs/index.html' }
      for (const [url, page] of Object.entries(pages)) {
        // Both methods in one route: Fastify's own HEAD would answer a length of 0.
        app.route({ method: ['GET', 'HEAD'], url, handler: (request, reply) => answerPage(page, request, reply) })
      }
    },
  }
}

/**
 * The policy of a page: its own scripts, styles and API, images that it holds itself, and nothing from elsewhere. Text
 * never becomes a script, whatever a script of the page does with it (trusted types).
 */
function policyOf(frameAncestors: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    `frame-ancestors ${frameAncestors.join(' ')}`,
  ].join('; ')
}

function send(file: PageFile, cacheControl: string, { headers, method }: FastifyRequest, reply: FastifyReply): void {
  const accepted = acceptedEncodings(headers['accept-encoding'])
  const { encoded, bytes: plain, etag: name } = file.content
  const encoding = [...encoded.keys()].find((each) => accepted.has(each))
  const etag = encoding === undefined ? `"${name}"` : `"${name}-${encoding}"`
  reply.header('cache-control', cacheControl).header('etag', etag)
  if (encoded.size > 0) reply.header('vary', 'accept-encoding')
  if (matches(headers['if-none-match'], etag)) return void reply.code(304).send()
  reply.type(file.type)
  if (encoding !== undefined) reply.header('content-encoding', encoding)
  const bytes = (encoding === undefined ? undefined : encoded.get(encoding)) ?? plain
  reply.header('content-length', bytes.length).send(method === 'HEAD' ? undefined : bytes)
}

function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Whether a browser opens a page, rather than a program asking for data. */
function isNavigation(request: FastifyRequest): boolean {
  return isRead(request) && (request.headers.accept ?? '').includes('text/html')
}

function pathOf({ url }: FastifyRequest): string {
  return (url.split('?', 1)[0] as string).replace(/\/{2,}/g, '/')
}

/** Whether a tag of the client is this one. A proxy that compresses makes tags weak. */
function matches(header: string | undefined, etag: string): boolean {
  return (header ?? '').split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag)
}

function findFiles(folder: Folder): PageFiles {
  const names = folder.names.filter((name) => !/(^|\/)\.[^/]*$/.test(name))
  const endings = new Set<string>(Object.values(encodings))
  const files = names
    .filter((name) => !endings.has(extname(name)))
    .map((name) => {
      const made = (Object.keys(encodings) as Encoding[]).filter((each) => names.includes(name + encodings[each]))
      return [`/${name}`, new PageFile(folder, name, made)] as const
    })
  return new Map(files)
}

const notBuilt = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sluice</title>
<h1>The pages are not built</h1>
<p>This checkout has no built pages. Build them with <code>npm run build:ui</code>, and restart the server.</p>
<p>The API works without them: <a href="${apiRoot}/openapi.json">openapi.json</a> describes it.</p>
</html>
`
