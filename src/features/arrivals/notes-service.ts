import type { Arrival } from '../../sources/arrival.ts'
import { isProviderName } from '../../sources/providers.ts'
import { isSignatureHeader, proofHeader } from '../../sources/settings.ts'
import { isHeaderName, isSendable, isSensitiveHeader } from '../../wire/headers.ts'
import type { Source } from '../sources/noun.ts'
import type { ArrivalCount, NewSample } from '../sources/rules.ts'
import type { ArrivalsDeps } from './service.ts'

/** A flood of refused arrivals writes the store this often, and this much in one transaction. */
const writeEveryMs = 1000
const sourcesPerWrite = 100
const samplesPerWrite = 25
/** Time for others between the transactions of very many sources. */
const pauseMs = 50
/** Bytes of a body that a sample keeps. */
const sampleBytes = 2048
const textLength = 512

type NotesDeps = Pick<ArrivalsDeps, 'store' | 'clock' | 'limits' | 'onTrouble'>

interface Noted {
  accepted: number
  refused: number
  refusedInRow: number
  refusedCode: string | null
  /** The first refusal since the last write. */
  sample: NewSample | undefined
}

/** A refused request as far as it is sampled. */
export interface Refused {
  readonly source: Pick<Source, 'provider' | 'settings'>
  readonly reason: string
  readonly arrival: Arrival
  readonly address: string
}

/** Counts arrivals by source, takes a sample of the first refused one in each second, and writes both to the store. */
export class ArrivalNotes {
  readonly #deps: NotesDeps
  readonly #noted = new Map<number, Noted>()
  #cancel: (() => void) | undefined
  #writing: Promise<void> | undefined
  #samples = 0

  constructor(deps: NotesDeps) {
    this.#deps = deps
  }

  accepted(source: number): void {
    const noted = this.#of(source)
    noted.accepted++
    noted.refusedInRow = 0
  }

  /** A request that was not read has no sample. */
  refused(source: number, code: string, request?: Refused): void {
    const noted = this.#of(source)
    noted.refused++
    noted.refusedInRow++
    noted.refusedCode = code
    if (request === undefined || this.#deps.limits.refusedSamples === 0) return
    if (noted.sample !== undefined) {
      noted.sample = { ...noted.sample, unsampled: noted.sample.unsampled + 1 }
    } else if (this.#samples < samplesPerWrite) {
      this.#samples++
      noted.sample = sampleOf(source, code, request)
    }
  }

  /** Writes what is left. */
  async close(): Promise<void> {
    this.#cancel?.()
    await this.#writing
    while (this.#noted.size > 0) await this.#write()
    this.#cancel?.()
  }

  #of(source: number): Noted {
    const known = this.#noted.get(source)
    if (known !== undefined) return known
    const noted: Noted = { accepted: 0, refused: 0, refusedInRow: 0, refusedCode: null, sample: undefined }
    this.#noted.set(source, noted)
    this.#writeLater(writeEveryMs)
    return noted
  }

  #writeLater(afterMs: number): void {
    if (this.#cancel !== undefined || this.#writing !== undefined) return
    this.#cancel = this.#deps.clock.after(afterMs, () => {
      this.#cancel = undefined
      this.#writing = this.#write().finally(() => {
        this.#writing = undefined
        if (this.#noted.size > 0) this.#writeLater(this.#noted.size > sourcesPerWrite ? pauseMs : writeEveryMs)
      })
    })
  }

  /** Never rejects: figures that could not be written are lost, and the operator has a line in the log. */
  async #write(): Promise<void> {
    const batch = [...this.#noted].slice(0, sourcesPerWrite)
    if (batch.length === 0) return
    for (const [source] of batch) this.#noted.delete(source)
    const counts: ArrivalCount[] = batch.map(([source, { sample, ...count }]) => ({ source, ...count }))
    const samples = batch.flatMap(([, { sample }]) => (sample === undefined ? [] : [sample]))
    this.#samples -= samples.length
    try {
      await this.#deps.store.noteArrivals(counts, samples, this.#deps.limits.refusedSamples)
    } catch (error) {
      this.#deps.onTrouble(error)
    }
  }
}

function sampleOf(key: number, code: string, { source, reason, arrival, address }: Refused): NewSample {
  const { method, url, headers, body } = arrival
  const query = url.includes('?') ? url.slice(url.indexOf('?') + 1) : ''
  return {
    source: key,
    code,
    reason: reason.slice(0, textLength),
    method,
    query: sampledQuery(query),
    address,
    headers: sampledHeaders(headers, source),
    // A copy: the body may be a small part of a buffer that was read from a socket, all of which would stay in memory.
    body: new Uint8Array(body.subarray(0, sampleBytes)),
    bytes: body.byteLength,
    unsampled: 0,
  }
}

/** The names of a query. Its values may be tokens. */
function sampledQuery(query: string): string {
  const names = query
    .slice(0, 4 * textLength)
    .split('&', 32)
    .map((pair) => pair.split('=', 1)[0] ?? '')
  // Anything may come here, and Postgres takes no NUL in a text.
  return names
    .join('&')
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .slice(0, textLength)
}

/** A source as far as the name of the header goes that proves its sender. */
type NamedProof = Pick<Source, 'provider' | 'settings'>

const headersLimit = 64
const headersBytesLimit = 8192
const valueLength = 2048

/** Headers of the connection, and of proxies, that say nothing about the event. */
const ofTransport =
  /^(accept|accept-encoding|cache-control|cdn-loop|cf-.*|connection|content-length|expect|forwarded|host|keep-alive|pragma|proxy-.*|te|trailer|transfer-encoding|upgrade|via|x-forwarded-.*|x-real-ip|x-request-start)$/

/** A signature proves who sent the body, and receivers may verify it again; it is no secret. */
function isSecret(name: string): boolean {
  return isSensitiveHeader(name) && !/signature/.test(name)
}

/**
 * The headers of an arrival that its message keeps, for header templates: without secrets, without those of the transport,
 * and at most 64 with 8 KiB in all. Null without any.
 */
export function arrivedHeaders(
  headers: Arrival['headers'],
  source: NamedProof,
): Readonly<Record<string, string>> | null {
  const secret = source.provider === 'hmac' ? undefined : proofOf(source)
  const kept: [string, string][] = []
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !isHeaderName(name) || !isSendable(value) || value.length > valueLength) continue
    if (isSecret(name) || ofTransport.test(name) || name === secret) continue
    bytes += name.length + value.length
    if (kept.length === headersLimit || bytes > headersBytesLimit) break
    kept.push([name, value])
  }
  return kept.length === 0 ? null : Object.fromEntries(kept)
}

/** The headers of a refused arrival, for its operator. Values of secrets and signatures are left out. */
function sampledHeaders(headers: Arrival['headers'], source: NamedProof): Readonly<Record<string, string>> {
  const proof = proofOf(source)
  const kept: [string, string][] = []
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !isHeaderName(name)) continue
    const shown = isSensitiveHeader(name) || isSignatureHeader(name) || name === proof ? '***' : value.slice(0, 256)
    bytes += name.length + shown.length
    if (kept.length === headersLimit || bytes > headersBytesLimit / 2) break
    kept.push([name, shown])
  }
  return Object.fromEntries(kept)
}

/** The header that carries the token or the signature, where the source itself gives its name. */
function proofOf({ provider, settings }: NamedProof): string | undefined {
  return isProviderName(provider) ? proofHeader(provider, settings) : undefined
}
