import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { atEnd } from './at-end.ts'

/** A span as a collector got it. Instants are in milliseconds since 1970. */
export interface CollectedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly traceState: string
  readonly kind: number
  readonly startedAt: number
  readonly endedAt: number
  readonly attributes: Readonly<Record<string, unknown>>
  /** 0 unset, 1 ok, 2 error. */
  readonly status: number
  readonly resource: Readonly<Record<string, unknown>>
}

/** A collector that takes traces over OTLP/HTTP in protobuf. */
export class Collector {
  readonly url: string
  readonly spans: CollectedSpan[] = []
  readonly requests: { readonly path: string; readonly headers: IncomingHttpHeaders }[] = []
  /** While it is set, no request is answered before it resolves. */
  answering: Promise<void> | undefined

  private constructor(port: number) {
    this.url = `http://127.0.0.1:${port}`
  }

  static async listen(t: TestContext): Promise<Collector> {
    const server = createServer(async (request, response) => {
      const body = await buffer(request)
      collector.requests.push({ path: request.url ?? '', headers: request.headers })
      collector.spans.push(...readRequest(body))
      await collector.answering
      response.setHeader('content-type', 'application/x-protobuf').end()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const collector = new Collector((server.address() as AddressInfo).port)
    atEnd(t, () => {
      server.close()
      server.closeAllConnections()
    })
    return collector
  }

  named(name: string): CollectedSpan[] {
    return this.spans.filter((span) => span.name === name)
  }
}

type Field = number | bigint | Buffer
type Message = ReadonlyMap<number, readonly Field[]>

/** The fields of a protobuf message by their numbers. */
function fieldsOf(bytes: Buffer): Message {
  const fields = new Map<number, Field[]>()
  let at = 0
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++)
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const take = (length: number) => {
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const type = tag & 7
    const value =
      type === 0
        ? varint()
        : type === 1
          ? take(8).readBigUInt64LE()
          : type === 5
            ? take(4).readUInt32LE()
            : take(Number(varint()))
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value])
  }
  return fields
}

const messages = (message: Message, field: number) => (message.get(field) ?? []).map((each) => fieldsOf(each as Buffer))
const bytes = (message: Message, field: number) => (message.get(field)?.[0] as Buffer | undefined) ?? Buffer.alloc(0)
const integer = (message: Message, field: number) => Number(message.get(field)?.[0] ?? 0)

function attributesOf(message: Message, field: number): Record<string, unknown> {
  return Object.fromEntries(messages(message, field).map((pair) => [String(bytes(pair, 1)), anyValueOf(pair)]))
}

function anyValueOf(pair: Message): unknown {
  const value = fieldsOf(bytes(pair, 2))
  if (value.has(1)) return String(bytes(value, 1))
  if (value.has(2)) return integer(value, 2) === 1
  return integer(value, 3)
}

function readRequest(body: Buffer): CollectedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((ofResource) => {
    const resource = attributesOf(fieldsOf(bytes(ofResource, 1)), 1)
    const spans = messages(ofResource, 2).flatMap((scope) => messages(scope, 2))
    return spans.map((span) => ({
      name: String(bytes(span, 5)),
      traceId: bytes(span, 1).toString('hex'),
      spanId: bytes(span, 2).toString('hex'),
      parentSpanId: bytes(span, 4).toString('hex'),
      traceState: String(bytes(span, 3)),
      kind: integer(span, 6),
      startedAt: integer(span, 7) / 1e6,
      endedAt: integer(span, 8) / 1e6,
      attributes: attributesOf(span, 9),
      status: integer(fieldsOf(bytes(span, 15)), 3),
      resource,
    }))
  })
}
