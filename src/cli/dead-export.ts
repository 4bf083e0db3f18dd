import { createWriteStream } from 'node:fs'
import { resolve } from 'node:path'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Query } from './client.ts'
import { CommandError, exitCode } from './outcome.ts'
import { progressLine, withProgress } from './progress.ts'
import type { Session } from './remote.ts'
import { counted } from './show.ts'

const newLine = 0x0a

/** Writes dead letters as they come, oldest first, and shows how far in time it has got. */
export async function exportDead(session: Session, path: string, query: Query): Promise<undefined> {
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
  return undefined
}

function standardOutput({ terminal }: Session): Writable {
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

/** When the newest of those that are asked for died; undefined when there is none. */
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
