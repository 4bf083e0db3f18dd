import { createReadStream, createWriteStream, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Item, Query } from './client.ts'
import type { Session } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { counted, grouped, text } from './table.ts'
import { progressLine, withProgress } from './terminal.ts'

const newLine = 0x0a

/** Writes dead letters, oldest first, and shows the progress by their instants. */
export async function exportDead(session: Session, path: string, query: Query): Promise<void> {
  const { client, terminal, options } = session
  const name = options.output as string | undefined
  const end = await newestOf(session, path, query)
  let lines = 0
  let begin: number | undefined
  await withProgress(terminal, async (show) => {
    async function* counting(): AsyncGenerator<Uint8Array> {
      for await (const chunk of client.stream(`${path}/export`, query)) {
        yield chunk
        for (const byte of chunk) if (byte === newLine) lines++
        const at = lastInstant(chunk)
        begin ??= at
        show(progressLine('Exporting', lines, shareOf(begin, at, end)))
      }
    }
    const out = name === undefined ? standardOutput(session) : createWriteStream(resolve(terminal.directory, name))
    await pipeline(counting, out).catch((error: NodeJS.ErrnoException) => {
      if (error.syscall === undefined) throw error
      throw new CommandError(`Cannot write ${name}: ${error.code}.`, exitCode.failed, { cause: error })
    })
  })
  if (name !== undefined)
    session.show({ exported: lines, file: name }, () => `${counted(lines, 'dead letter')} written to ${name}.`)
}

/** The standard output as a stream, at the pace of its reader. */
export function standardOutput({ terminal }: Session): Writable {
  return new Writable({
    async write(chunk: Uint8Array, _encoding, done) {
      try {
        await terminal.write(chunk)
      } catch (error) {
        return done(error as Error)
      }
      done()
    },
  })
}

/** The instant of the newest dead letter of the query; undefined when there is none. */
async function newestOf({ client }: Session, path: string, query: Query): Promise<number | undefined> {
  const { data } = await client.page(path, { ...query, limit: 1, order: 'descending' })
  return data[0] === undefined ? undefined : Date.parse(String(data[0].diedAt))
}

/** The instant of the last dead letter in a part of the stream, if it has one. */
function lastInstant(chunk: Uint8Array): number | undefined {
  const found = Buffer.from(chunk)
    .toString('latin1')
    .match(/"diedAt":"([^"]+)"/g)
    ?.at(-1)
  return found === undefined ? undefined : Date.parse(found.slice(10, -1))
}

function shareOf(begin: number | undefined, at: number | undefined, end: number | undefined): number | undefined {
  if (begin === undefined || at === undefined || end === undefined || end <= begin) return undefined
  return (at - begin) / (end - begin)
}

/** The size of one request: well below the server's limit, except for a single longer line. */
const linesPerRequest = 200
const bytesPerRequest = 256 * 1024
/** Bad lines that are named; a file that is not an export has only bad lines. */
const namedLimit = 20

interface Bad {
  readonly line: number
  readonly problem: string
}

/** Lines of the file for one request. */
interface Part {
  readonly bytes: Buffer
  readonly firstLine: number
  /** Bytes of the file up to the end of this part. */
  readonly readBytes: number
}

/**
 * Imports exported dead letters. The whole file is checked before anything is imported. An interrupted import can be
 * repeated, because a second import changes nothing.
 */
export async function importDead(session: Session, path: string, name: string): Promise<void> {
  const { client, terminal, options } = session
  const file = resolve(terminal.directory, name)
  const size = sizeOf(file, name)
  const skipsBad = options.skipBad === true
  const send = (part: Part, more: Readonly<Record<string, boolean>>): Promise<Item> =>
    client.post(`${path}/import`, {
      query: {
        endpoint_id: options.endpoint as string | undefined,
        first_line: part.firstLine,
        skip_bad: true,
        ...more,
      },
      body: part.bytes,
      contentType: 'application/jsonl',
    })

  const total = { imported: 0, unchanged: 0, skipped: [] as Bad[] }
  await withProgress(terminal, async (show) => {
    let lines = 0
    for await (const part of skipsBad ? [] : partsOf(file, name)) {
      const { checked, skipped } = await send(part, { dry_run: true })
      total.skipped.push(...(skipped as Bad[]))
      lines += Number(checked)
      show(progressLine('Checking', lines, part.readBytes / size))
    }
    if (total.skipped.length > 0) return
    lines = 0
    for await (const part of partsOf(file, name)) {
      const { checked, imported, unchanged, skipped } = await send(part, {})
      total.imported += Number(imported)
      total.unchanged += Number(unchanged)
      total.skipped.push(...(skipped as Bad[]))
      lines += Number(checked)
      show(progressLine('Importing', lines, part.readBytes / size))
    }
  })

  const { imported, unchanged, skipped } = total
  if (skipped.length > 0 && !skipsBad) {
    throw new CommandError(
      `${namesOf(skipped, name)}\nNothing was imported. --skip-bad imports the others.`,
      exitCode.failed,
    )
  }
  session.show({ imported, unchanged, skipped }, () => {
    const known = unchanged === 0 ? '' : ` ${grouped(unchanged)} unchanged: imported before, or sent again since.`
    const left = skipped.length === 0 ? '' : `\n${namesOf(skipped, name)}`
    return `${counted(imported, 'dead letter')} imported.${known}${left}`
  })
}

/** Reads the file in parts of whole lines. */
async function* partsOf(file: string, name: string): AsyncGenerator<Part> {
  let rest: Buffer[] = []
  let restBytes = 0
  let lines = 0
  let firstLine = 1
  let readBytes = 0
  const take = (): Part => {
    const part = { bytes: Buffer.concat(rest), firstLine, readBytes }
    firstLine += lines
    rest = []
    restBytes = 0
    lines = 0
    return part
  }
  for await (const line of linesOf(file, name)) {
    if (lines > 0 && restBytes + line.length > bytesPerRequest) yield take()
    rest.push(line)
    restBytes += line.length
    readBytes += line.length
    if (++lines === linesPerRequest) yield take()
  }
  if (lines > 0) yield take()
}

/** The lines of a file with their line breaks. */
async function* linesOf(file: string, name: string): AsyncGenerator<Buffer> {
  let begun: Buffer[] = []
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      let start = 0
      for (let end = chunk.indexOf(newLine); end >= 0; end = chunk.indexOf(newLine, start)) {
        yield Buffer.concat([...begun, chunk.subarray(start, end + 1)])
        begun = []
        start = end + 1
      }
      if (start < chunk.length) begun.push(chunk.subarray(start))
    }
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw error
    throw new CommandError(`Cannot read ${name}: ${code}.`, exitCode.failed, { cause: error })
  }
  if (begun.length > 0) yield Buffer.concat(begun)
}

function sizeOf(file: string, name: string): number {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) throw new CommandError(`There is no file ${name}.`, exitCode.failed)
  return Math.max(1, found.size)
}

function namesOf(bad: readonly Bad[], name: string): string {
  const named = bad.slice(0, namedLimit).map(({ line, problem }) => `${name}:${line}: ${text(problem)}`)
  const more = bad.length - named.length
  return [...named, ...(more > 0 ? [`… and ${counted(more, 'line')} more.`] : [])].join('\n')
}
