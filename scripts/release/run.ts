import { spawnSync } from 'node:child_process'
import { delimiter, dirname } from 'node:path'

/** The output of a program. Throws with what it printed when it fails. */
export function run(program: string, line: readonly string[], cwd: string): string {
  // npm runs the scripts of packages with this Node.
  const env = { ...process.env, PATH: [dirname(process.execPath), process.env.PATH].join(delimiter), NODE_OPTIONS: '' }
  const { status, stdout, stderr, error } = spawnSync(program, line, { cwd, env, encoding: 'utf8', maxBuffer: 2 ** 26 })
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${program} ${line.join(' ')} ended with ${status}: ${stdout}${stderr}`)
  return stdout
}

/** Whether a program can be started with this line. */
export function works(program: string, line: readonly string[]): boolean {
  return spawnSync(program, line, { stdio: 'ignore' }).status === 0
}
