import type { LookupAddress } from 'node:dns'
import { Resolver } from 'node:dns'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { ConnectFailure } from './classify.ts'

/** An address of a name, and how long it may be cached. */
export interface Resolved extends LookupAddress {
  readonly ttlSeconds: number
}

/** Finds every address of a name; rejects with a ConnectFailure when there is none. */
export type Resolve = (name: string) => Promise<readonly Resolved[]>

/**
 * Asks DNS servers directly (c-ares). The system's own lookup runs on the thread pool of four, where a handful of slow
 * names stops every file and name of the process; this one kept 50 lookups against a silent server apart. It also leaves
 * out /etc/hosts, which a tenant's URL has no business with.
 */
export function openDns(options: { readonly servers?: readonly string[]; readonly timeoutMs?: number } = {}): {
  readonly resolve: Resolve
  close(): void
} {
  const resolver = new Resolver({ timeout: options.timeoutMs ?? 2000, tries: 2 })
  if (options.servers) resolver.setServers(options.servers)

  const ask = (name: string, family: 4 | 6) =>
    new Promise<readonly Resolved[] | NodeJS.ErrnoException>((resolve) => {
      const done = (error: NodeJS.ErrnoException | null, records: { address: string; ttl: number }[]) =>
        resolve(error ?? records.map(({ address, ttl }) => ({ address, family, ttlSeconds: ttl })))
      if (family === 4) resolver.resolve4(name, { ttl: true }, done)
      else resolver.resolve6(name, { ttl: true }, done)
    })

  return {
    async resolve(name) {
      const answers = await Promise.all([ask(name, 4), ask(name, 6)])
      const found = answers.flatMap((answer) => (answer instanceof Error ? [] : answer))
      if (found.length > 0) return found
      throw dnsFailure(name, answers.filter((answer) => answer instanceof Error) as NodeJS.ErrnoException[])
    },
    close: () => resolver.cancel(),
  }
}

/** A name without addresses counts as not found. Any other error of a server goes before that. */
function dnsFailure(name: string, errors: readonly NodeJS.ErrnoException[]): ConnectFailure {
  const codes = errors.map((error) => error.code ?? 'unknown')
  if (codes.includes('ETIMEOUT')) {
    return new ConnectFailure('dns_timeout', `No DNS server answered for ${name} in time.`, errors[0])
  }
  const other = codes.find((code) => code !== 'ENOTFOUND' && code !== 'ENODATA')
  if (other !== undefined) {
    return new ConnectFailure('dns_failed', `The addresses of ${name} could not be looked up (${other}).`, errors[0])
  }
  return new ConnectFailure('dns_not_found', `The host name ${name} has no address.`, errors[0])
}

const maxNames = 10_000
const maxKeepMs = 30_000
/** Short enough to notice a repair at once, long enough that a dead name costs one question a second. */
const minKeepMs = 1000

interface Entry {
  readonly answer: Promise<readonly Resolved[]>
  /** Undefined while the question is under way. */
  keepUntil: SteadyMs | undefined
}

/**
 * Caches answers for their time to live, within 1 to 30 s, and failures for 1 s. Questions for one name at the same time are
 * one question. Caching opens no hole, because every connection checks its address again.
 */
export function cached(resolve: Resolve, clock: Clock): Resolve {
  const names = new Map<string, Entry>()

  /** Decides how long an answer is kept. The caller that asked gets its failure. */
  async function keep(entry: Entry): Promise<void> {
    let ttlMs = 0
    try {
      const found = await entry.answer
      if (found.length > 0) ttlMs = 1000 * Math.min(...found.map((one) => one.ttlSeconds))
    } catch {}
    entry.keepUntil = clock.steady() + Math.min(maxKeepMs, Math.max(minKeepMs, ttlMs))
  }

  return (name) => {
    const known = names.get(name)
    if (known && (known.keepUntil === undefined || clock.steady() < known.keepUntil)) return known.answer
    names.delete(name)
    // The oldest goes first; in a Map that is the first.
    if (names.size >= maxNames) names.delete(names.keys().next().value as string)

    const entry: Entry = { answer: resolve(name), keepUntil: undefined }
    names.set(name, entry)
    void keep(entry)
    return entry.answer
  }
}
