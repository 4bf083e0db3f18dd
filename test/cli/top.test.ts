import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, type TestContext, test } from 'node:test'
import { type Choices, choose } from '../../src/features/live/top-command.ts'
import { eventually } from '../e2e/eventually.ts'
import { main, type Served, served, workplace } from './program.ts'

const start: Choices = { sort: 'waiting', filter: '', isTyping: false, isPaused: false }

/** The choices after several keys. */
function after(...keys: string[]): Choices | 'quit' {
  return keys.reduce<Choices | 'quit'>((choices, key) => (choices === 'quit' ? choices : choose(choices, key)), start)
}

test('keys sort, filter, pause and quit', () => {
  assert.deepEqual(after('s'), { ...start, sort: 'oldest' })
  assert.deepEqual(after('s', 's', 's'), start)
  assert.deepEqual(after('p'), { ...start, isPaused: true })
  assert.deepEqual(after('p', ' '), start)
  assert.deepEqual(after('/', 'q', 's', 'x', '\x7f', '\r'), { ...start, filter: 'qs' })
  assert.deepEqual(after('/', 'a', '\x1b'), start)
  assert.deepEqual(after('/', 'a', '\r', '\x1b'), start)
  assert.deepEqual(after('\x1b[A', 'z'), start)
  for (const quit of [['q'], ['\x03'], ['/', 'a', '\x03']]) assert.equal(after(...quit), 'quit')
})

/** Runs a program on a terminal of 80 × 24: keys come from standard input; the first line of standard error is its id. */
const pty = `
import os, pty, select, struct, sys, termios, fcntl
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
print(pid, file=sys.stderr, flush=True)
inputs = [fd, 0]
while True:
    ready, _, _ = select.select(inputs, [], [])
    if 0 in ready:
        keys = os.read(0, 1000)
        if keys: os.write(fd, keys)
        else: inputs.remove(0)
    if fd in ready:
        try: text = os.read(fd, 100000)
        except OSError: break
        if not text: break
        os.write(1, text)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
`
const hasPython = spawnSync('python3', ['-c', 'import pty']).status === 0
const enter = '\x1b[?1049h'
const leave = '\x1b[?25h\x1b[?1049l'

/** The rows of the screen that were written. */
function rowsIn(out: string): string[] {
  return out.split('\x1b[').flatMap((part) => /^(\d+);1H/.exec(part)?.[1] ?? [])
}

describe('sluice top', () => {
  const place = workplace()
  let s: Served

  before(async () => {
    s = await served(place)
    await s.sluice('app create Acme --uid acme')
    for (const uid of ['main', 'other']) {
      await s.sluice(`endpoint create acme http://127.0.0.1:9/ --uid ${uid}`)
      await s.sluice(`endpoint pause acme ${uid}`)
    }
    for (let i = 0; i < 3; i++) await s.sluice(['send', 'acme', 'x.y', '{}'])
  })

  test('prints one look without a terminal', async () => {
    const out = await s.sluice('top')
    assert.match(out, /in \S+\/s {3}out \S+\/s/)
    assert.match(out, /waiting 6 {3}oldest \d+ s/)
    assert.match(out, /IN FLIGHT {2}STATE\nsluice serve .* {2}0 of 1,024 {2}alive, leader/)
    assert.match(out, /acme\/main +3 +\d+ s +stopped +\S/)
    assert(!out.includes('\x1b'))
    interface Json {
      readonly waiting: { readonly total: number }
      readonly oldestSince: string
      readonly endpoints: readonly { readonly oldestSince: string }[]
    }
    const { waiting, oldestSince, endpoints } = await s.json<Json>('top')
    assert.equal(waiting.total, 6)
    // Of all endpoints, not of the listed ones alone.
    assert.equal(oldestSince, endpoints.map((each) => each.oldestSince).sort()[0])
  })

  /** On a terminal of its own. */
  async function onTerminal(t: TestContext, env: Record<string, string> = {}) {
    const child: ChildProcess = spawn('python3', ['-c', pty, process.execPath, main, 'top', '--every', '500ms'], {
      cwd: place.directory,
      env: { PATH: process.env.PATH, TERM: 'xterm', NO_COLOR: '1', ...s.env, ...env },
      stdio: 'pipe',
    })
    const seen = { out: '', err: '' }
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      seen.out += text
    })
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      seen.err += text
    })
    const ended = once(child, 'close').then(([code]) => code as number)
    t.after(() => child.kill('SIGKILL'))
    await eventually('the first look', () => seen.out.includes('acme/other'))
    return { seen, ended, type: (keys: string) => child.stdin?.write(keys), pid: Number.parseInt(seen.err, 10) }
  }

  test('draws in place, writes only lines that changed, and restores the terminal', { skip: !hasPython }, async (t) => {
    const { seen, ended, type } = await onTerminal(t)
    assert(seen.out.startsWith(enter))
    type('p')
    await eventually('the pause', () => seen.out.includes('PAUSED'))
    const before = seen.out.length
    type('/')
    await eventually('the filter', () => seen.out.slice(before).includes('filter:'))
    // The key changed the last line alone.
    assert.deepEqual(rowsIn(seen.out.slice(before)), ['24'])
    type('other\r')
    // One of the two endpoints is left, so the line of the second is erased.
    await eventually('the filtered list', () => seen.out.slice(before).includes('\x1b[9;1H\x1b[0m\x1b[K'))
    type('q')
    assert.equal(await ended, 0)
    assert(seen.out.endsWith(leave), JSON.stringify(seen.out.slice(-200)))
  })

  test('restores the terminal when it is terminated', { skip: !hasPython }, async (t) => {
    const { seen, ended, pid } = await onTerminal(t)
    process.kill(pid, 'SIGTERM')
    assert.equal(await ended, 0)
    assert(seen.out.endsWith(leave))
  })

  test('restores the terminal when it crashes', { skip: !hasPython }, async (t) => {
    const crash = join(place.directory, 'crash.mjs')
    writeFileSync(crash, `process.on('SIGUSR2', () => { throw new Error('crash') })`)
    const { seen, ended, pid } = await onTerminal(t, { NODE_OPTIONS: `--import=${crash}` })
    process.kill(pid, 'SIGUSR2')
    assert.notEqual(await ended, 0)
    assert(seen.out.includes(leave))
  })
})
