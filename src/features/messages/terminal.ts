import type { Session } from '../../cli/command.ts'
import { CommandError, exitCode, readNamedFile } from '../../cli/terminal.ts'
import { AppError } from '../../domain/app-error.ts'
import { Scanner } from '../../json/scan.ts'

const inputSign = '-'

const fileSign = '@'

/** The fields as JSON with the bytes of the payload, which are never parsed. */
export function withPayload(fields: object, payload: Buffer): Buffer {
  const head = JSON.stringify(fields).slice(0, -1)
  return Buffer.concat([Buffer.from(`${head},"payload":`), payload, Buffer.from('}')])
}

/** Reads a payload from the operand, `@FILE`, or standard input. */
export async function readPayload({ terminal, options }: Session, given: string | undefined): Promise<Buffer> {
  const payload = await bytesOf()
  if (payload.length === 0 && options.raw !== true) {
    throw new CommandError('The payload is empty. The smallest JSON object is {}.', exitCode.misused)
  }
  if (options.raw !== true) assertJson(payload)
  return payload

  async function bytesOf(): Promise<Buffer> {
    if (given === undefined || given === inputSign) {
      if (given === undefined && terminal.inputIsTyped) {
        throw new CommandError(`No payload. Give JSON, @FILE, or ${inputSign} for standard input.`, exitCode.misused)
      }
      return terminal.readInput()
    }
    if (!given.startsWith(fileSign)) return Buffer.from(given)
    return readNamedFile(terminal, given.slice(fileSign.length))
  }
}

/**
 * Refuses a payload that is not JSON, before it is put between the other fields: the server would count bytes from their
 * beginning, which the user never wrote, and a payload such as `1,"tags":["x"]` would add fields.
 */
function assertJson(payload: Buffer): void {
  try {
    new Scanner(0).scan(payload)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new CommandError(error.message.replace(/^The (body|JSON text)/, 'The payload'), exitCode.misused)
  }
}
