import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import type { Envelope, Item } from '../../intake/publication.ts'
import type { Scanner } from '../../json/scan.ts'
import { refuseIf } from '../../operations/validate.ts'
import { readFields } from '../messages/reading-service.ts'
import type { InboxRow } from './store.ts'

const space = new Set([0x20, 0x09, 0x0a, 0x0d])
const openBrace = 0x7b

export interface InboxLimits {
  readonly scanner: Scanner
  readonly bodyLimitBytes: number
  readonly now: EpochMs
}

/** The message of a row, checked as the API checks a publish. Throws AppError that names every mistake. */
export function readInboxRow(row: InboxRow, { scanner, bodyLimitBytes, now }: InboxLimits): Item {
  if (row.payload === null) {
    throw new AppError('payload_too_large', `The payload is larger than bodyLimit, ${bodyLimitBytes} bytes.`)
  }
  const body = Buffer.from(row.payload as string)
  const options = optionsOf(row.options)
  if ('eventType' in options) wrong(['eventType'], 'belongs into the column event_type', 'unknown')
  const { contentType = 'application/json', ...fields } = options
  if (contentType === 'application/json') {
    scanner.scan(body, '')
    if (body[body.findIndex((byte) => !space.has(byte))] !== openBrace) wrong(['payload'], 'must be object', 'type')
  }
  const { envelope, problems } = readFields({ ...fields, eventType: row.eventType }, contentType, now)
  refuseIf(problems)
  return { envelope: { ...(envelope as Envelope), inbox: row.id }, body }
}

/** The column `options` is JSON on Postgres, and its text on SQLite. */
function optionsOf(stored: unknown): Readonly<Record<string, unknown>> {
  let options = stored
  if (typeof stored === 'string') {
    try {
      options = JSON.parse(stored)
    } catch (error) {
      wrong(['options'], `must be JSON: ${(error as Error).message}`, 'json')
    }
  }
  if (options === null) return {}
  if (typeof options !== 'object' || Array.isArray(options)) wrong(['options'], 'must be a JSON object', 'type')
  return options as Readonly<Record<string, unknown>>
}

function wrong(at: readonly string[], message: string, type: string): void {
  refuseIf([{ at: ['row', ...at], message, type }])
}
