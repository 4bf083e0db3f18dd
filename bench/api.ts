import { apiKey } from './server.ts'

/** Calls the public API and answers the parsed body; any answer but 2xx is an error that quotes it. */
export async function callApi<T>(method: 'POST' | 'PATCH' | 'GET', url: string, body?: object): Promise<T> {
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${apiKey}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${url} was answered ${response.status}: ${text}`)
  return JSON.parse(text) as T
}

/** Makes an application with these endpoints and answers where its messages are published. */
export async function setUp(
  api: string,
  name: string,
  endpoints: readonly ({ readonly url: string } & Record<string, unknown>)[],
): Promise<string> {
  const app = await callApi<{ id: string }>('POST', `${api}/app`, { name })
  for (const endpoint of endpoints) await callApi('POST', `${api}/app/${app.id}/endpoint`, endpoint)
  return `${api}/app/${app.id}/msg`
}
