const headEnd = Buffer.from('\r\n\r\n')

/**
 * Cuts a stream of HTTP/1.1 requests or responses into head and body. It knows content-length and nothing else, which is
 * all that Sluice, undici and Fastify send here; anything else throws rather than be measured wrongly.
 */
export class FrameReader {
  #rest: Buffer | undefined

  /** Calls `onFrame` for each frame that is complete with this chunk. */
  read(chunk: Buffer, onFrame: (head: string, body: Buffer) => void): void {
    let bytes = this.#rest ? Buffer.concat([this.#rest, chunk]) : chunk
    for (;;) {
      const end = bytes.indexOf(headEnd)
      if (end < 0) break
      const head = bytes.toString('latin1', 0, end + 2)
      const bodyStart = end + 4
      const bodyEnd = bodyStart + contentLength(head)
      if (bytes.length < bodyEnd) break
      onFrame(head, bytes.subarray(bodyStart, bodyEnd))
      if (bytes.length === bodyEnd) {
        this.#rest = undefined
        return
      }
      bytes = bytes.subarray(bodyEnd)
    }
    this.#rest = bytes
  }
}

/** The value of a header, or undefined. The head as sent is tried first; lower-casing all of it costs more. */
export function header(head: string, name: string): string | undefined {
  let start = head.indexOf(`\r\n${name}: `)
  if (start < 0) start = head.toLowerCase().indexOf(`\r\n${name}: `)
  if (start < 0) return undefined
  const from = start + name.length + 4
  return head.slice(from, head.indexOf('\r\n', from))
}

function contentLength(head: string): number {
  const text = header(head, 'content-length')
  if (text !== undefined) return Number(text)
  if (header(head, 'transfer-encoding') !== undefined) throw new Error('a chunked body, which the bench does not read')
  return 0
}
