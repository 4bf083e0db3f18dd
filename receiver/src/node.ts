import type { IncomingMessage, ServerResponse } from 'node:http'
import { bodyConsumed, bodyIncomplete, bodyTooLarge, concatenated, type Receiver } from './receive.ts'
import type { Received } from './verify.ts'

/** A request of node:http, on which a framework may have put the body. */
export type NodeRequest = IncomingMessage & { readonly body?: unknown; readonly rawBody?: unknown }

export type NodeHandler = (request: NodeRequest, response: ServerResponse) => Promise<void>

/** A listener for `createServer` of node:http. */
export function nodeHandler(receiver: Receiver): NodeHandler {
  return nodeHandlerWith(receiver, 'Give the request to the receiver before any other code reads its body.')
}

/** A listener with the remedy of its framework for a body that a parser has read. */
export function nodeHandlerWith(receiver: Receiver, remedy: string): NodeHandler {
  return async (request, response) => {
    const { status, headers, body } = await answerNode(receiver, request, response, remedy)
    response.writeHead(status, headers).end(body)
  }
}

/** The answer to a request of node:http. It does not write the answer, because frameworks have their own ways. */
export async function answerNode(receiver: Receiver, request: NodeRequest, response: ServerResponse, remedy: string) {
  const answer = await receiver.answer(async () => ({
    headers: request.headers,
    body: await readNode(request, receiver.maxBodyBytes, remedy),
  }))
  const body = new Uint8Array(await answer.arrayBuffer())
  const headers: Record<string, string> = Object.fromEntries(answer.headers)
  if (answer.status === 413) {
    // The rest of the body is not read, so that the connection is of no further use.
    headers.connection = 'close'
    response.once('finish', () => request.destroy())
  }
  return { status: answer.status, headers, body }
}

async function readNode(request: NodeRequest, maxBodyBytes: number, remedy: string): Promise<Received['body']> {
  const { headers, readableDidRead, body, rawBody } = request
  const ready = [rawBody, body].find((each) => each instanceof Uint8Array)
  if (ready !== undefined) return ready as Uint8Array
  if (readableDidRead) throw bodyConsumed(remedy)
  if (Number(headers['content-length']) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = []
    let length = 0
    const onData = (chunk: Uint8Array) => {
      length += chunk.length
      if (length <= maxBodyBytes) return void chunks.push(chunk)
      request.off('data', onData)
      request.pause()
      reject(bodyTooLarge(maxBodyBytes))
    }
    request.on('data', onData)
    request.on('end', () => resolve(concatenated(chunks, length)))
    // `close` also comes after `end`, when it changes nothing.
    request.on('error', (error) => reject(bodyIncomplete(error)))
    request.on('close', () => reject(bodyIncomplete()))
  })
}
