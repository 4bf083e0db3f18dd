/** The beginning of every URL of Sluice's own API, for the server, the commands, the dashboard and the scripts. */
export const apiRoot = '/api/v1'
/** The same for the part of Svix's API that takes webhooks in. */
export const ingestRoot = '/ingest/api/v1'
/** Items of one page of a list. */
export const pageItems = { usual: 50, most: 250 } as const
/** The content type of every answer in JSON. */
export const jsonType = 'application/json; charset=utf-8'
