import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'

const child = join(import.meta.dirname, 'logging-child.ts')

/** A process that logs to a descriptor, or to a socket that its parent reads when it is asked to. */
function start(t: TestContext, stderr: number | 'pipe', stdout: number | 'ignore' = 'ignore'): ChildProcess {
  const started = spawn(process.execPath, [child], { stdio: ['ignore', stdout, stderr, 'ipc'] })
  t.after(() => started.kill('SIGKILL'))
  return started
}

async function logLines(logger: ChildProcess, lines: number): Promise<number> {
  const answer = once(logger, 'message')
  logger.send(lines)
  const [heldMs] = await answer
  return heldMs as number
}

function temporary(t: TestContext, name: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return join(directory, name)
}

interface Line {
  readonly msg: string
  readonly i?: number
  readonly dropped?: number
}

const parsed = (text: string): Line[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)

/** Every line came, or was counted as dropped. */
function checkComplete(text: string, lines: number): void {
  const all = parsed(text)
  const came = all.filter(({ msg }) => msg === 'a line').length
  const dropped = all.reduce((sum, line) => sum + (line.dropped ?? 0), 0)
  assert.equal(came + dropped, lines)
  assert.ok(dropped > 0 && came >= 900, `${came} came, ${dropped} were dropped`)
}

for (const kind of ['pipe', 'socket'] as const) {
  test(`a ${kind} that nothing reads holds up no turn; what was dropped is counted once it is read`, async (t) => {
    let text = ''
    let read: () => void
    let logger: ChildProcess
    if (kind === 'pipe') {
      const path = temporary(t, 'fifo')
      execFileSync('mkfifo', [path])
      // Open for both, so that neither end waits for the other.
      const fd = openSync(path, constants.O_RDWR)
      logger = start(t, fd)
      read = () => {
        const reader = new Socket({ fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK), writable: false })
        t.after(() => reader.destroy())
        reader.setEncoding('utf8').on('data', (chunk) => {
          text += chunk
        })
      }
    } else {
      logger = start(t, 'pipe')
      logger.stderr?.setEncoding('utf8').pause()
      read = () => {
        logger.stderr?.on('data', (chunk) => {
          text += chunk
        })
        logger.stderr?.resume()
      }
    }
    // 5 MB, where a pipe takes 64 KiB: the first line that does not fit used to wait for ever.
    await logLines(logger, 5000)
    await logLines(logger, 1)
    read()
    await eventually('the notice', () => text.includes('log lines were dropped'))
    const exited = once(logger, 'exit')
    logger.send(0)
    assert.deepEqual((await exited)[0], 70)
    await eventually('the last line before the end', () => text.includes('the last line') && text.endsWith('\n'))
    checkComplete(text, 5001)
  })
}

test('a process whose log nothing reads ends all the same', async (t) => {
  const path = temporary(t, 'fifo')
  execFileSync('mkfifo', [path])
  const logger = start(t, openSync(path, constants.O_RDWR))
  await logLines(logger, 5000)
  const exited = once(logger, 'exit')
  logger.send(0)
  assert.equal((await exited)[0], 70)
})

test('a reader that goes away does not end the process', async (t) => {
  const logger = start(t, 'pipe')
  logger.stderr?.destroy()
  await logLines(logger, 100)
  await logLines(logger, 100)
  assert.equal(logger.exitCode, null)
})

test('a file gets every line, the last one before the end among them', async (t) => {
  const path = temporary(t, 'log')
  const logger = start(t, openSync(path, 'a'))
  await logLines(logger, 5000)
  const exited = once(logger, 'exit')
  logger.send(0)
  await exited
  const lines = parsed(readFileSync(path, 'utf8'))
  assert.equal(lines.length, 5001)
  assert.equal(lines.at(-1)?.msg, 'the last line')
})

test('a file that takes both streams (> log 2>&1) keeps every line of both', async (t) => {
  const path = temporary(t, 'log')
  const file = openSync(path, 'w')
  const logger = start(t, file, file)
  await logLines(logger, 2)
  const exited = once(logger, 'exit')
  logger.send(0)
  await exited
  const lines = readFileSync(path, 'utf8').split('\n')
  const kinds = lines.map((line) => (line.startsWith('{') ? (JSON.parse(line) as Line).msg : line))
  assert.deepEqual(kinds, ['a line', 'a line', 'printed', 'the last line', ''])
})
