import { once } from 'node:events'
import { startThread } from '../assets/assets.ts'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { checkContents } from './validate.ts'
import type { Parsed } from './yaml-thread.ts'

const lengthLimit = 1024 * 1024
/** A document of the full length takes about two seconds, a hostile one far longer. */
const timeLimitMs = 10_000
const resourceLimits = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }

/** The document before this one: the process parses one at a time, because a thread takes up to 256 MB. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Reads YAML 1.2 as the JSON that it stands for. Rejects with AppError, with the line, when the text is no YAML or stands
 * for too much. A thread parses it, because the library cannot be interrupted: a hostile text takes seconds or any amount
 * of memory, and then only the thread ends.
 */
export async function readYaml(text: string, at: readonly string[], clock: Clock): Promise<unknown> {
  if (text.length > lengthLimit) {
    throw new AppError('payload_too_large', `YAML must not be longer than ${lengthLimit} characters; send JSON.`)
  }
  const parsing = last.then(() => parseApart(text, clock))
  last = parsing.catch(() => {})
  const parsed = await parsing
  if ('json' in parsed) return checkContents(JSON.parse(parsed.json))
  throw new AppError('validation', 'Some fields are not valid.', [{ at, message: parsed.problem, type: 'yaml' }])
}

async function parseApart(text: string, clock: Clock): Promise<Parsed> {
  const thread = startThread('operations/yaml-thread', { workerData: text, resourceLimits })
  const late = Promise.withResolvers<[Parsed]>()
  const cancel = clock.after(timeLimitMs, () =>
    late.resolve([{ problem: `takes longer than ${timeLimitMs / 1000} s to parse; send JSON` }]),
  )
  try {
    const [parsed] = (await Promise.race([once(thread, 'message'), late.promise])) as [Parsed]
    return parsed
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error
    return { problem: 'takes too much memory to parse; send JSON' }
  } finally {
    cancel()
    await thread.terminate()
  }
}
