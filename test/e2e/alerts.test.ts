import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

async function call(server: Program, method: string, path: string, body?: unknown): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  const response = await fetch(`${server.api}${path}`, init)
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.text()}`)
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: each receiver hears of each transition once, though the leader is killed`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const folder = mkdtempSync(join(tmpdir(), 'sluice-alerts-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const script = join(folder, 'page.sh')
    // It fails at first, and is run again.
    writeFileSync(
      script,
      `#!/bin/sh\nif [ ! -e ${folder}/tried ]; then touch ${folder}/tried; exit 1; fi\necho "$ALERT_STATUS $ALERT_RULE" >> ${folder}/paged\n`,
    )
    chmodSync(script, 0o755)
    const file = join(folder, 'alerts.yaml')
    writeFileSync(
      file,
      `defaults: false
rules:
  waiting: { above: 2, clear: 0, for: 0s, clearFor: 0s }
receivers:
  chat: { type: slack, url: "${receiver.url}/\${CHAT}" }
  pager: { type: pagerduty, url: ${receiver.url}/pager, routingKey: key1 }
  hook:
    type: url
    url: ${receiver.url}/hook
    headers: { x-team: ops }
    body: '{"t": "{{status}} {{rule}}: {{sentence}}"}'
  script: { type: command, command: [${script}] }
  other: { type: slack, url: ${receiver.url}/other, rules: [] }
`,
    )
    const variables = { SLUICE_ALERTS_FILE: file, CHAT: 'chat' }
    let tries = 0
    receiver.behave('/chat', () => ({ status: ++tries === 1 ? 500 : 200 }))
    let server = await Program.start(t, 'serve', place.store, variables)
    await call(server, 'POST', '/operational-webhook/endpoint', {
      url: `${receiver.url}/ops`,
      filterTypes: ['alert.*'],
    })
    await call(server, 'POST', '/app', { name: 'acme', uid: 'acme' })
    await call(server, 'POST', '/app/acme/endpoint', { url: `${receiver.url}/app`, uid: 'main' })
    await call(server, 'POST', '/app/acme/endpoint/main/pause')
    for (let i = 0; i < 5; i++) await call(server, 'POST', '/app/acme/msg', { eventType: 'x', payload: {} })
    const phase = async () => {
      const [row] = await place.query('select state from alert')
      return row === undefined ? undefined : String((parsed(row.state) as { phase: string }).phase)
    }
    await eventually('the alert fires', async () => (await phase()) === 'firing')
    await server.kill()
    server = await Program.start(t, 'serve', place.store, variables)
    const paths = ['/chat', '/pager', '/hook', '/ops']
    const heard = (path: string) => {
      const arrivals = receiver.arrivals.filter((each) => each.path === path)
      const distinct = new Map(arrivals.map((each) => [each.headers['webhook-id'], each]))
      return [...distinct.values()].map(({ body }) => JSON.parse(body.toString()))
    }
    const paged = () => {
      try {
        return readFileSync(join(folder, 'paged'), 'utf8').trim().split('\n')
      } catch {
        return []
      }
    }
    await eventually(
      'all hear that it fires',
      () => paths.every((path) => heard(path).length === 1) && paged().length > 0,
    )
    await call(server, 'POST', '/app/acme/endpoint/main/resume')
    await eventually('all hear that it resolved', () => {
      return paths.every((path) => heard(path).length === 2) && paged().at(-1) === 'resolved waiting'
    })
    assert.deepEqual(
      heard('/ops').map(({ type }) => type),
      ['alert.firing', 'alert.resolved'],
    )
    assert.deepEqual(
      heard('/pager').map(({ event_action: action }) => action),
      ['trigger', 'resolve'],
    )
    const [trigger, resolve] = heard('/pager')
    assert.equal(trigger.dedup_key, resolve.dedup_key)
    assert.deepEqual(
      [trigger.routing_key, trigger.payload.severity, trigger.payload.class],
      ['key1', 'warning', 'waiting'],
    )
    assert.match(heard('/hook')[0].t, /^firing waiting: 5 deliveries wait, the first due for /)
    assert.equal(receiver.arrivals.find(({ path }) => path === '/hook')?.headers['x-team'], 'ops')
    assert.match(heard('/chat')[0].text, /^:warning: \*waiting\* \(warning\)\n5 deliveries wait/)
    assert.ok(tries >= 3, 'a refused announcement is delivered again')
    assert.deepEqual(heard('/other'), [])
    assert.deepEqual([...new Set(paged())], ['firing waiting', 'resolved waiting'])
  })
}

function parsed(state: unknown): unknown {
  return typeof state === 'string' ? JSON.parse(state) : state
}
