import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { defaultRules } from '../../src/features/alerts/figures.ts'
import { loadAlertFile } from '../../src/features/alerts/file.ts'
import { ConfigError } from '../../src/runtime/config.ts'
import { runCommand } from '../../src/runtime/process.ts'

function load(t: TestContext, text: string, env: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-alerts-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'alerts.yaml')
  writeFileSync(path, text)
  return { path, read: () => loadAlertFile(path, env) }
}

/** The mistakes of a file, without its path. */
function mistakes(t: TestContext, text: string, env: Record<string, string> = {}): string[] {
  const { path, read } = load(t, text, env)
  try {
    read()
  } catch (error) {
    assert(error instanceof ConfigError, String(error))
    return error.problems.map((problem) => problem.replace(path, 'F'))
  }
  return assert.fail('the file was accepted')
}

test('an empty file means the default rules', (t) => {
  assert.deepEqual(load(t, '').read(), { rules: defaultRules, receivers: [] })
  assert.deepEqual(load(t, '{}').read(), { rules: defaultRules, receivers: [] })
})

test('a file changes, switches off and adds rules, in YAML and in JSON', (t) => {
  const { rules } = load(
    t,
    `rules:
  waiting: { above: 5000, for: 10m }
  failures: off
  disk_filling: { below: 2GiB, severity: warning }
  slow: { figure: wait_p95, above: 1m, clear: 30s, clearFor: 5m, for: 2m, severity: critical }
`,
  ).read()
  const byName = new Map(rules.map((rule) => [rule.name, rule]))
  assert.equal(rules.length, defaultRules.length)
  assert.deepEqual(byName.get('waiting'), {
    ...defaultRules[0],
    threshold: 5000,
    clear: 4500,
    holdMs: 600_000,
  })
  assert.equal(byName.has('failures'), false)
  assert.deepEqual(
    [byName.get('disk_filling')?.threshold, byName.get('disk_filling')?.severity],
    [2 * 2 ** 30, 'warning'],
  )
  assert.deepEqual(byName.get('slow'), {
    name: 'slow',
    figure: 'wait_p95',
    severity: 'critical',
    side: 'above',
    threshold: 60,
    clear: 30,
    holdMs: 120_000,
    clearMs: 300_000,
  })
  const json = load(t, '{"defaults": false, "rules": {"behind": {"for": "5m"}}}').read()
  assert.deepEqual(
    json.rules.map(({ name, holdMs }) => [name, holdMs]),
    [['behind', 300_000]],
  )
})

test('receivers take secrets from the environment', (t) => {
  const { receivers } = load(
    t,
    `receivers:
  chat: { type: slack, url: "https://hooks.example.com/\${PART}/x", rules: [waiting] }
  pager: { type: pagerduty, routingKey: "\${PD_KEY}" }
  hook:
    type: url
    url: https://ops.example.com/alert
    headers: { authorization: "Bearer \${PART}" }
    body: '{"title": "{{rule}}", "text": "{{ sentence }}"}'
  script: { type: command, command: [/bin/page, --now], timeout: 3s }
`,
    { PART: 'T0', PD_KEY: 'k' },
  ).read()
  const [chat, pager, hook, script] = receivers
  assert(chat?.type === 'slack' && pager?.type === 'pagerduty' && hook?.type === 'url' && script?.type === 'command')
  assert.deepEqual([chat.url, chat.rules], ['https://hooks.example.com/T0/x', ['waiting']])
  assert.deepEqual([pager.url, pager.routingKey], ['https://events.pagerduty.com/v2/enqueue', 'k'])
  assert.deepEqual(hook.headers, { authorization: 'Bearer T0' })
  assert.deepEqual([script.command, script.timeoutMs], [['/bin/page', '--now'], 3000])
})

test('mistakes are all named, each with its line and a remedy', (t) => {
  const found = mistakes(
    t,
    `rule: {}
rules:
  waitng: off
  waiting: { above: many }
  behind: { below: 3 }
  mine:
    figure: wait_p59
    above: 1
  late: { figure: schedule_late }
receivers:
  chat: { type: slack, url: "\${NOT_SET}" }
  hook: { type: url, url: "ftp://x", body: "{{sentense}}" }
  raw: { type: url, url: "https://x", body: "{\\"a\\": {{sentence}}}" }
  Bad Name: { type: command, command: "rm -rf /" }
  other: { type: mail }
  some: { type: slack, url: "https://x", rules: [waitin] }
`,
  )
  const expected = [
    /^F line 1: rule is unknown; did you mean rules\?$/,
    /^F line 3: rules.waitng no default rule has this name; did you mean waiting\?$/,
    /^F line 4: rules.waiting.above must be a number of deliveries, such as 1000$/,
    /^F line 5: rules.behind.below must be `above`/,
    /^F line 7: rules.mine.figure must name a figure of docs\/alerts.md: ; did you mean wait_p95\?$/,
    /^F line 9: rules.late needs a threshold: `above: NUMBER`$/,
    /^F line 11: receivers.chat.url names the variable NOT_SET, which is not set/,
    /^F line 12: receivers.hook.url must be a URL/,
    /^F line 12: receivers.hook.body names \{\{sentense\}\}, which no alert has/,
    /^F line 13: receivers.raw.body must make JSON/,
    /^F line 14: receivers.Bad Name must have a name/,
    /^F line 14: receivers.Bad Name.command must be a list/,
    /^F line 15: receivers.other.type needs a type: slack, pagerduty, url, command$/,
    /^F line 16: receivers.some.rules waitin is no rule .*did you mean waiting\?$/,
  ]
  for (const pattern of expected)
    assert.ok(
      found.some((each) => pattern.test(each)),
      `${pattern}\n${found.join('\n')}`,
    )
  assert.match(mistakes(t, 'rules: [\n')[0] ?? '', /^F line \d: /)
  assert.throws(() => loadAlertFile('/nowhere/alerts.yaml', {}), /cannot be read \(ENOENT\)/)
})

test('a command gets values by its environment, no shell reads them, and no secret is passed on', async () => {
  process.env.SLUICE_SECRET_OF_THIS_TEST = 'secret'
  const show = ['-e', 'process.stdout.write(JSON.stringify([process.argv.slice(1), process.env]))', '--', '$(id)']
  const { isDone, output } = await runCommand([process.execPath, ...show], { ALERT_RULE: '`id`; $HOME' }, '', 60_000)
  delete process.env.SLUICE_SECRET_OF_THIS_TEST
  assert.equal(isDone, true)
  const [args, env] = JSON.parse(output)
  assert.deepEqual([args, env.ALERT_RULE], [['$(id)'], '`id`; $HOME'])
  assert.equal(env.SLUICE_SECRET_OF_THIS_TEST, undefined)
})

test('a command that hangs is killed, and one that does not exist has failed', async () => {
  const hanging = await runCommand([process.execPath, '-e', 'setInterval(() => {}, 1000)'], {}, 'x', 300)
  assert.deepEqual([hanging.isDone, hanging.output.startsWith('killed after 300 ms')], [false, true])
  const missing = await runCommand(['/nowhere/program'], {}, 'x', 300)
  assert.deepEqual([missing.isDone, missing.output.includes('ENOENT')], [false, true])
  const failing = await runCommand([process.execPath, '-e', 'console.error("no"); process.exit(3)'], {}, '', 60_000)
  assert.deepEqual([failing.isDone, failing.output.trim()], [false, 'exit code 3: no'])
})
