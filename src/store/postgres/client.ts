import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import type { PostgresAddress, PostgresHost } from '../../wire/postgres-address.ts'

export const statementTimeoutMs = 10_000
export const connectionTimeoutMillis = 5_000

/** Where a client connects, and how. */
export interface Way {
  readonly address: PostgresAddress
  readonly host: PostgresHost
  /** Undefined leaves it to the driver, which reads PGSSLMODE. */
  readonly isEncrypted: boolean | undefined
  readonly password: string | undefined
}

/** Settings of every client Sluice makes. */
export function clientConfig({ address, host, isEncrypted, password }: Way): pg.ClientConfig {
  const { user, database, others } = address
  return {
    ...others,
    // A value that is undefined hides the driver's default.
    ...(host.host !== undefined && { host: host.host }),
    ...(host.port !== undefined && { port: host.port }),
    ...(user !== undefined && { user }),
    ...(database !== undefined && { database }),
    ...(password !== undefined && { password }),
    ...(isEncrypted !== undefined && { ssl: isEncrypted && encryption(address) }),
    application_name: others.application_name ?? 'sluice',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis,
    // A connection whose other end has silently gone would wait for a quarter of an hour; the server answers or cancels
    // sooner than this.
    query_timeout: statementTimeoutMs + 5_000,
    types: columnTypes,
  }
}

/** Read for each connection: authorities and certificates are renewed while programs run. */
function encryption(address: PostgresAddress): ConnectionOptions {
  const { sslMode, rootCertificate, certificate, key, keyPassword } = address
  const isNamed = rootCertificate !== undefined && rootCertificate !== 'system'
  return {
    ...(isNamed && { ca: readFileSync(rootCertificate, 'utf8') }),
    ...(certificate !== undefined && { cert: readFileSync(certificate, 'utf8') }),
    ...(key !== undefined && { key: readFileSync(key, 'utf8') }),
    ...(keyPassword !== undefined && { passphrase: keyPassword }),
    ...(sslMode === 'verify-ca' && { checkServerIdentity: () => undefined }),
    rejectUnauthorized: sslMode === 'verify-ca' || sslMode === 'verify-full',
  }
}

// Keys and instants stay below 2^53, so bigint columns are read as numbers: by our connections only, not by every user
// of the driver in this process.
const bigint = 20
const bigintArray = 1016
const bytea = 17

/** How values of columns are read. */
export const columnTypes = { getTypeParser: parserOf }

function parserOf(oid: number, format?: 'text' | 'binary') {
  if (oid === bigint) return Number
  if (oid === bigintArray) return parseIntegers
  if (oid === bytea) return parseHex
  return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
}

/** Bytes arrive as `\\x` and two digits each; the driver's own parser also knows what servers before 9.0 sent. */
function parseHex(text: string): Buffer {
  return Buffer.from(text.slice(2), 'hex')
}

function parseIntegers(text: string): number[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',').map(Number)
}
