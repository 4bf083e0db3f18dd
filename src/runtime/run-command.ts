import { spawn } from 'node:child_process'
import type { RunCommand } from '../domain/alert-receiver.ts'

const outputLimit = 4096
/** Variables that a program needs to run at all. Others may be secrets of this process. */
const passedOn = ['PATH', 'HOME', 'USER', 'LANG', 'TZ', 'TMPDIR']

/**
 * Runs a program without a shell, with these values in its environment, and the input on its standard input. Kills it after
 * the time limit. Never rejects.
 */
export const runCommand: RunCommand = ([program = '', ...args], values, input, timeoutMs) =>
  new Promise((resolve) => {
    const env: Record<string, string | undefined> = { ...values }
    for (const name of passedOn) if (process.env[name] !== undefined) env[name] = process.env[name]
    const child = spawn(program, args, { env, shell: false, timeout: timeoutMs, killSignal: 'SIGKILL' })
    let output = ''
    const keep = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(0, outputLimit)
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    // A program need not read its input.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    child.on('error', (error) => resolve({ isDone: false, output: error.message }))
    // Not `close`: a grandchild may keep the output open.
    child.on('exit', (code, signal) => {
      const end = signal === 'SIGKILL' ? `killed after ${timeoutMs} ms` : `exit code ${code ?? signal}`
      resolve({ isDone: code === 0, output: code === 0 ? output : `${end}${output === '' ? '' : `: ${output}`}` })
    })
  })
