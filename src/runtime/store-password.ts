import { exec } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { ConfigError } from './config.ts'
import type { Config } from './settings.ts'

/** Programs that make a token for a login take a second or two. */
const commandMs = 10_000
const mostBytes = 64 * 1024

/**
 * Reads the password of the store from where the settings say; undefined when they name no such place. Each call
 * reads again, because files are replaced and tokens expire.
 */
export function storePassword({
  storePasswordFile: file,
  storePasswordCommand: command,
}: Pick<Config, 'storePasswordFile' | 'storePasswordCommand'>): (() => Promise<string>) | undefined {
  if (file !== null && command !== null)
    throw new ConfigError(['storePasswordFile and storePasswordCommand: set one of them, not both'])
  if (file !== null) return async () => firstLine(await readFile(file, 'utf8'), `the file ${file} (storePasswordFile)`)
  if (command !== null) return async () => firstLine(await outputOf(command), 'the output of storePasswordCommand')
  return undefined
}

function firstLine(text: string, place: string): string {
  const line = text.split(/\r?\n/, 1)[0] as string
  if (line === '') throw new Error(`${place} is empty`)
  return line
}

/** The output of a command line. An error has its exit code and its complaint, never its output. */
function outputOf(command: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  exec(command, { timeout: commandMs, maxBuffer: mostBytes, encoding: 'utf8' }, (error, output, complaint) => {
    if (error === null) return resolve(output)
    const end = error.killed ? `took longer than ${commandMs / 1000} s` : `ended with ${error.code}`
    const [said = ''] = complaint.trim().split('\n', 1)
    reject(new Error(`storePasswordCommand ${end}${said === '' ? '' : `: ${said}`}`))
  })
  return promise
}
