import { apiRoot } from '../../src/domain/api.ts'

const otherRoots = /^\/((ingest\/api\/v1|ingress|in)\/|(readyz|healthz|livez)$)/

/** Whether a URL is one of the operations', and not of the pages or of metrics. */
export function isOfOperations(url: string): boolean {
  return url.startsWith(apiRoot) || otherRoots.test(url)
}

/** The URL of a path as `operations` names it: whole where it does not begin with the root of the API. */
export function urlAt(path: string): string {
  return otherRoots.test(path) ? path : apiRoot + path
}

/** The path of a URL as `operations` names it. */
export function pathOf(url: string): string {
  return url.startsWith(apiRoot) ? url.slice(apiRoot.length) : url
}
