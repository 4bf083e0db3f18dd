import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { sqlitePlace } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { Receiver } from '../e2e/receiver.ts'
import { codeOf, root } from './pages.ts'
import { hasPrograms, Shell } from './shell.ts'

const skip = hasPrograms('bash', 'curl', 'patch') ? false : 'needs bash, curl and patch'

test('the steps of AGENTS.md, carried out literally, add webhooks to the example shop', { skip }, async (t) => {
  const { store } = await sqlitePlace(t)
  const { api } = await Program.start(t, 'serve', store)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-agents-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  cpSync(join(root, 'examples/shop'), folder, { recursive: true })

  // Steps 3 and 4: a file under the name of its first line, and a change.
  for (const code of codeOf('AGENTS.md', 'js')) {
    const [, name = ''] = /^\/\/ (\S+)\n/.exec(code) ?? []
    writeFileSync(join(folder, name), code)
  }
  for (const change of codeOf('AGENTS.md', 'diff')) execFileSync('patch', ['-p1'], { cwd: folder, input: change })

  const env = { SLUICE_URL: new URL(api).origin, SLUICE_API_KEY: apiKey }
  const shop = spawn(process.execPath, ['shop.mjs'], { cwd: folder, env: { ...env, PORT: '0' } })
  atEnd(t, () => shop.kill())
  let printed = ''
  for (const stream of [shop.stdout, shop.stderr]) stream.setEncoding('utf8').on('data', (text) => (printed += text))
  const url = await eventually('the shop', () => {
    if (shop.exitCode !== null) throw new Error(printed)
    return /listens on (\S+)/.exec(printed)?.[1]
  })

  // Step 5, with an endpoint of the customer between its two blocks.
  const shell = new Shell(t, { ...env, SHOP: url })
  const [before = '', after = ''] = codeOf('AGENTS.md', 'sh')
  const customer = await shell.run(before)
  assert.match(customer, /\/portal#app=app_\w+&token=appsk_/)
  const receiver = await Receiver.listen(t)
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ url: receiver.url, eventTypes: ['order.placed'] })
  const made = await fetch(`${api}/app/acme/endpoint`, { method: 'POST', headers, body })
  assert.equal(made.status, 201)
  await shell.run(after)
  const [delivered] = await eventually('the order', () => receiver.arrivals.length > 0 && receiver.arrivals)
  assert.deepEqual(JSON.parse(delivered?.body.toString() ?? ''), { id: 'order-1', customer: 'acme', total: 249 })
})
