/** The bytes of a stream as far as they were read, and why reading ended. */
export interface Read {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** All bytes came; more than the limit came; the deadline passed; or the stream failed. */
  readonly end: 'whole' | 'cut' | 'late' | 'broken'
}

/** Reads at most `limit` bytes of a stream, in at most `withinMs`. Never throws. The rest of the stream is given up. */
export async function readUpTo(stream: ReadableStream | null, limit: number, withinMs: number): Promise<Read> {
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = stream?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(resolve, withinMs, 'late')
  })
  const readAll = async (): Promise<Read['end']> => {
    while (reader !== undefined) {
      const read = await Promise.race([reader.read(), late])
      if (read === 'late') return 'late'
      if (read.done) break
      const part = read.value.subarray(0, limit - length)
      chunks.push(part)
      length += part.length
      if (part.length < read.value.length) return 'cut'
    }
    return 'whole'
  }
  const end = await readAll().catch(() => 'broken' as const)
  clearTimeout(timer)
  // An unread rest would keep one of the six connections that a Worker may have.
  if (end === 'cut' || end === 'late') void reader?.cancel().catch(() => {})
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return { bytes, end }
}
