import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { OAuth2 } from '../../src/features/credentials/rules.ts'

/** A request for a token as it came. */
export interface TokenRequest {
  readonly headers: IncomingMessage['headers']
  readonly form: URLSearchParams
}

/** Plays one token endpoint: what it does with each request. */
export type Answering = (response: ServerResponse, request: TokenRequest, nth: number) => void

export const json = (response: ServerResponse, status: number, body: unknown, headers = {}) => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

export const giveToken: Answering = (response, _, nth) =>
  json(response, 200, { access_token: `t${nth}`, token_type: 'Bearer', expires_in: 3600 })

/** A token endpoint that ends with the test. */
export async function tokenServer(t: TestContext, answering: Answering = giveToken) {
  const requests: TokenRequest[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const seen = { headers: request.headers, form: new URLSearchParams(Buffer.concat(chunks).toString()) }
    requests.push(seen)
    answering(response, seen, requests.length)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const tokenUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`
  const auth: OAuth2 = {
    ...{ kind: 'oauth2', tokenUrl, clientId: 'client:1', method: 'client_secret_basic', secret: 'se cr+et%' },
    ...{ keyId: null, scope: null, audience: null },
  }
  return { auth, requests }
}
