/** The SHA-256 of an id and a body, in hex. Requests with the same digest are repetitions of each other. */
export async function digestOf(id: string, body: Uint8Array<ArrayBuffer>): Promise<string> {
  const ofBody = await crypto.subtle.digest('SHA-256', body)
  return digestOfText(`${hex(ofBody)} ${id}`)
}

export async function digestOfText(text: string): Promise<string> {
  return hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
}

/** The shard of a digest. */
export function shardOf(digest: string, shards: number): number {
  return Number.parseInt(digest.slice(0, 8), 16) % shards
}

function hex(bytes: ArrayBuffer): string {
  return Buffer.from(bytes).toString('hex')
}
