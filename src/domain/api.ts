/** The beginning of every URL of Sluice's own API, for the server, the commands, the dashboard and the scripts. */
export const apiRoot = '/api/v1'
/** The same for the part of Svix's API that takes webhooks in. */
export const ingestRoot = '/ingest/api/v1'

/**
 * Whether a text can stand between two slashes of a URL. Every client and proxy that reads URLs resolves `.` and `..`
 * (WHATWG URL, RFC 3986 5.2.4), and some take two slashes for one, so that the request names another thing: a deletion of
 * `/app/acme/endpoint/..` would be one of `/app/acme`.
 */
export function isPathStep(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..'
}

/** Items of one page of a list. */
export const pageItems = { usual: 50, most: 250 } as const
/** The content type of every answer in JSON. */
export const jsonType = 'application/json; charset=utf-8'
