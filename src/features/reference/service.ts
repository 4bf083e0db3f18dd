import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { openApiDocument } from '../../operations/openapi.ts'
import { acceptedEncodings } from '../../wire/accept-encoding.ts'

/** Compressed in the thread pool, with 30 ms of a processor for 541 KB; the best quality of Brotli would take a second. */
const encoders = {
  br: (bytes: Buffer) => promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 8 } }),
  gzip: (bytes: Buffer) => promisify(gzip)(bytes, { level: 9 }),
} as const
type Encoding = keyof typeof encoders

/** The reference as JSON, made once, in each encoding when the first client takes it. */
export class Reference {
  #plain: Buffer | undefined
  readonly #encoded = new Map<Encoding, Promise<Buffer>>()

  get plain(): Buffer {
    this.#plain ??= Buffer.from(JSON.stringify(openApiDocument()))
    return this.#plain
  }

  /** The bytes for a client and their encoding: the best one that its `accept-encoding` names, else none. */
  async for(header: string | string[] | undefined): Promise<{ bytes: Buffer; encoding: Encoding | undefined }> {
    const accepted = acceptedEncodings(header)
    const encoding = (Object.keys(encoders) as Encoding[]).find((each) => accepted.has(each))
    if (encoding === undefined) return { bytes: this.plain, encoding }
    const encoded = this.#encoded.get(encoding) ?? encoders[encoding](this.plain)
    this.#encoded.set(encoding, encoded)
    return { bytes: await encoded, encoding }
  }
}
