import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import type { TestContext } from 'node:test'

/** The answer for a name: addresses, an error, no answer at all, or another name and its addresses. */
export type DnsAnswer =
  | readonly string[]
  | 'nxdomain'
  | 'servfail'
  | 'refused'
  | 'silent'
  | { readonly alias: string; readonly addresses: readonly string[] }

export interface FakeDns {
  /** Such as `127.0.0.1:5353`. */
  readonly server: string
  /** The questions that came, such as `A hooks.test`. */
  readonly asked: string[]
}

const types: Readonly<Record<number, string>> = { 1: 'A', 28: 'AAAA' }
const codes = { servfail: 2, nxdomain: 3, refused: 5 } as const

/** A DNS server on loopback that answers as the test set it. `nth` counts the questions for that name and type from 1. */
export async function fakeDns(
  t: TestContext,
  say: (name: string, type: string, nth: number) => DnsAnswer,
  ttlSeconds = 0,
): Promise<FakeDns> {
  const socket = createSocket('udp4')
  const asked: string[] = []
  socket.on('message', (query, from) => {
    const { name, type, end } = readQuestion(query)
    const question = `${types[type] ?? type} ${name}`
    asked.push(question)
    const said = say(name, types[type] ?? String(type), asked.filter((one) => one === question).length)
    if (said === 'silent') return
    const records = typeof said === 'string' ? [] : answersFor(said, type, ttlSeconds)
    const head = Buffer.alloc(12)
    query.copy(head, 0, 0, 2)
    head.writeUInt16BE(0x8180 | (typeof said === 'string' ? codes[said] : 0), 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(records.length, 6)
    socket.send(Buffer.concat([head, query.subarray(12, end), ...records]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.after(() => socket.close())
  return { server: `127.0.0.1:${socket.address().port}`, asked }
}

function readQuestion(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 }
}

function answersFor(said: Exclude<DnsAnswer, string>, type: number, ttlSeconds: number): Buffer[] {
  const asked = Buffer.from([0xc0, 12]) // A pointer to the name in the question.
  const addressed = 'alias' in said ? encodeName(said.alias) : asked
  const alias = 'alias' in said ? [record(asked, 5, ttlSeconds, encodeName(said.alias))] : []
  const addresses = ('alias' in said ? said.addresses : said).filter((address) => isIPv6(address) === (type === 28))
  return [...alias, ...addresses.map((address) => record(addressed, type, ttlSeconds, encodeAddress(address)))]
}

function record(name: Buffer, type: number, ttlSeconds: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10)
  fixed.writeUInt16BE(type, 0)
  fixed.writeUInt16BE(1, 2)
  fixed.writeUInt32BE(ttlSeconds, 4)
  fixed.writeUInt16BE(data.length, 8)
  return Buffer.concat([name, fixed, data])
}

function encodeName(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]))
  return Buffer.concat([...labels, Buffer.from([0])])
}

function encodeAddress(address: string): Buffer {
  if (!isIPv6(address)) return Buffer.from(address.split('.').map(Number))
  // URL writes every spelling of an IPv6 address in groups of hexadecimal.
  const [before = '', after] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)))
  const head = groups(before)
  const tail = after === undefined ? [] : groups(after)
  const zeros = after === undefined ? [] : Array.from({ length: 8 - head.length - tail.length }, () => 0)
  const bytes = Buffer.alloc(16)
  for (const [i, group] of [...head, ...zeros, ...tail].entries()) bytes.writeUInt16BE(group, 2 * i)
  return bytes
}
