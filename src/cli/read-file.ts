import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Terminal } from '../runtime/process.ts'
import { CommandError, exitCode } from './outcome.ts'

/** The bytes of a file that the command line names. */
export async function readNamedFile({ directory }: Terminal, name: string): Promise<Buffer> {
  try {
    return await readFile(resolve(directory, name))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    const reason = code === 'ENOENT' ? 'no such file' : code
    throw new CommandError(`Cannot read ${name}: ${reason}.`, exitCode.misused, { cause: error })
  }
}

/** The bytes of a file, or of standard input for `-`. */
export function readFileOrInput(terminal: Terminal, name: string): Promise<Buffer> {
  return name === '-' ? terminal.readInput() : readNamedFile(terminal, name)
}
