import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { apiKey } from '../e2e/program.ts'
import { dialects, isLong, Target } from './attack.ts'

const rounds = isLong ? 20 : 2

interface Change {
  readonly action: string
  readonly path: string
  readonly body?: unknown
  /** Whether the store has the change. */
  isDone(target: Target): Promise<boolean>
}

/** Changes of every kind of thing, each with a name of its own. */
const changes: readonly ((name: string) => Change)[] = [
  (name) => ({ action: 'POST /app', path: '/app', body: { name, uid: name }, isDone: has(`/app/${name}`) }),
  (name) => ({ action: 'PUT /app/:app', path: `/app/${name}`, body: { name }, isDone: has(`/app/${name}`) }),
  (name) => ({
    action: 'POST /app/:app/endpoint',
    path: '/app/acme/endpoint',
    body: { url: 'http://127.0.0.1:9/', uid: name },
    isDone: has(`/app/acme/endpoint/${name}`),
  }),
  (name) => ({
    action: 'PATCH /app/:app/endpoint/:endpoint',
    path: `/app/acme/endpoint/old-${name}`,
    body: { description: name },
    isDone: shows(`/app/acme/endpoint/old-${name}`, `"description":"${name}"`),
  }),
  (name) => ({
    action: 'PUT /app/:app/endpoint/:endpoint/headers',
    path: `/app/acme/endpoint/old-${name}/headers`,
    body: { headers: { 'x-name': name } },
    isDone: shows(`/app/acme/endpoint/old-${name}/headers`, name),
  }),
  (name) => ({
    action: 'POST /app/:app/endpoint/:endpoint/pause',
    path: `/app/acme/endpoint/old-${name}/pause`,
    isDone: shows(`/app/acme/endpoint/old-${name}`, '"paused":true'),
  }),
  (name) => ({
    action: 'DELETE /app/:app/endpoint/:endpoint',
    path: `/app/acme/endpoint/old-${name}`,
    isDone: async (target) => !(await has(`/app/acme/endpoint/old-${name}`)(target)),
  }),
  (name) => ({
    action: 'POST /event-type',
    path: '/event-type',
    body: { name, description: name },
    isDone: has(`/event-type/${name}`),
  }),
  (name) => ({
    action: 'PUT /event-type/:name',
    path: `/event-type/${name}`,
    body: { description: name },
    isDone: has(`/event-type/${name}`),
  }),
  (name) => ({
    action: 'PUT /app/:app/endpoint/:endpoint',
    path: `/app/acme/endpoint/old-${name}`,
    body: { url: 'http://127.0.0.1:9/', description: name },
    isDone: shows(`/app/acme/endpoint/old-${name}`, `"description":"${name}"`),
  }),
  (name) => ({
    action: 'POST /operational-webhook/endpoint',
    path: '/operational-webhook/endpoint',
    body: { url: 'http://127.0.0.1:9/', uid: name },
    isDone: has(`/operational-webhook/endpoint/${name}`),
  }),
  (name) => ({
    action: 'POST /app/:app/schedule',
    path: '/app/acme/schedule',
    body: { uid: name, cron: '0 7 * * *', eventType: 'a', payload: {} },
    isDone: has(`/app/acme/schedule/${name}`),
  }),
  (name) => ({
    action: 'POST /api-key',
    path: '/api-key',
    body: { name, scopes: ['read'] },
    isDone: shows('/api-key?limit=250', name),
  }),
]

/** How much of the request the client sends before it hangs up. */
const moments = {
  'after the headers': (head: string, _body: string) => head,
  'in the middle of the body': (head: string, body: string) => head + body.slice(0, body.length / 2),
  'after the body': (head: string, body: string) => head + body,
}
const manners = { reset: (socket: Socket) => socket.resetAndDestroy(), close: (socket: Socket) => socket.end() }

for (const dialect of dialects) {
  test(`${dialect}: a client that hangs up leaves its change with an audit row, or neither`, async (t) => {
    const target = await Target.start(t, dialect, { SLUICE_LOG_LEVEL: 'debug' })
    await target.client.createApplication('acme')
    const asked: { readonly name: string; readonly what: string; readonly change: Change }[] = []
    for (const [i, make] of changes.entries()) {
      for (const [moment, cut] of Object.entries(moments)) {
        for (const [manner, hangUp] of Object.entries(manners)) {
          for (let round = 0; round < rounds; round++) {
            const name = `n${i}-${asked.length}z`
            const change = make(name)
            if (change.path.includes(`old-${name}`)) {
              await target.client.createEndpoint('acme', { url: 'http://127.0.0.1:9/', uid: `old-${name}` })
            }
            const [head, body] = bytesOf(change)
            const socket = await target.connect()
            await new Promise((resolve) => socket.write(cut(head, body), resolve))
            // Half of them leave the server a moment to begin.
            if (round % 2 === 1) await target.call('GET', '/health/ping')
            hangUp(socket)
            asked.push({ name, change, what: `${change.action}, ${manner} ${moment}` })
          }
        }
      }
    }
    await eventually('every request to end', async () => {
      const before = await audited(target)
      for (let i = 0; i < 20; i++) await target.call('GET', '/app/acme')
      return before.length === (await audited(target)).length
    })
    let rows = await audited(target)
    let done = 0
    for (const { name, change, what } of asked) {
      const { action } = change
      const isRow = (row: (typeof rows)[number]) =>
        row.action === action && new RegExp(`${name}\\b`).test(JSON.stringify(row))
      const isDone = await change.isDone(target)
      // A change that was still under way when the rows were read.
      if (isDone && !rows.some(isRow)) rows = await audited(target)
      const hasRow = rows.some(isRow)
      assert.equal(hasRow, isDone, `${what}: ${isDone ? 'no audit row' : 'an audit row without a change'}`)
      if (isDone) done++
    }
    assert.ok(done > 0 && done < asked.length, `${done} of ${asked.length} were done; the test needs both`)
    const verified = await target.call('GET', '/audit/verify')
    assert.match(verified.text, /"whole":true/, verified.text)
    assert.ok(target.program.isRunning)
    assert.doesNotMatch(target.program.logged, /a bug|"stack"/)
    assert.match(target.program.logged, /a client hung up/)
  })
}

function bytesOf({ action, path, body }: Change): [head: string, body: string] {
  const text = body === undefined ? '' : JSON.stringify(body)
  const type = body === undefined ? '' : 'content-type: application/json\r\n'
  const head = `${action.split(' ')[0]} /api/v1${path} HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${apiKey}\r\n`
  return [`${head}${type}content-length: ${Buffer.byteLength(text)}\r\n\r\n`, text]
}

function has(path: string): (target: Target) => Promise<boolean> {
  return async (target) => (await target.call('GET', path)).status === 200
}

function shows(path: string, text: string): (target: Target) => Promise<boolean> {
  return async (target) => (await target.call('GET', path)).text.includes(text)
}

async function audited(target: Target): Promise<{ readonly action: string }[]> {
  const rows: { readonly action: string }[] = []
  let iterator = ''
  for (;;) {
    const { text } = await target.call('GET', `/audit?limit=250${iterator}`)
    const page = JSON.parse(text)
    rows.push(...page.data)
    if (page.done) return rows
    iterator = `&iterator=${page.iterator}`
  }
}
