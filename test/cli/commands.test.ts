import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { testEncryptionKey } from '../store/test-vault.ts'
import { main, runHere, workplace } from './program.ts'

describe('config', () => {
  test('prints every setting with value and origin, and no secret, for people and as JSON', async () => {
    const { directory, begin } = workplace()
    writeFileSync(join(directory, 'sluice.json'), '{"lease":"30s"}')
    const env = {
      SLUICE_ADMIN_KEY: 'hunter2-and-more',
      SLUICE_STORE: 'postgres://u:hunter2-and-more@db/x',
      NO_COLOR: '1',
    }
    const people = begin('config --in-flight 7', env)
    assert.equal(await people.ended, 0)
    assert.match(people.out, /^inFlight +7 +flag --in-flight$/m)
    assert.match(people.out, /^lease +30s +file sluice.json$/m)
    assert.match(people.out, /^store +postgres:\/\/\*\*\*\*@db\/x +environment SLUICE_STORE$/m)
    const json = begin('config --json', env)
    assert.equal(await json.ended, 0)
    const rows = JSON.parse(json.out) as { name: string; value: string; origin: string }[]
    assert.deepEqual(
      rows.filter(({ name }) => name === 'adminKey' || name === 'timeout').map(({ value, origin }) => [value, origin]),
      [
        ['****', 'environment SLUICE_ADMIN_KEY'],
        ['15s', 'default'],
      ],
    )
    assert.ok(!`${people.out}${json.out}${people.err}${json.err}`.includes('hunter2-and-more'))
  })
})

describe('help', () => {
  const helpOf = async (command: string) => {
    const { ended, out } = await runHere([command, '--help'], { directory: '.' }, {})
    assert.equal(ended, 0)
    return out.replace(/\s+/g, ' ')
  }

  test('names the default and the variable of every flag', async () => {
    const serve = await helpOf('serve')
    assert.match(serve, /--lease <DURATION> .*? \(default: 10s; SLUICE_LEASE\)/)
    assert.match(serve, /--local permit .*? \(SLUICE_LOCAL\)/)
    assert.match(serve, /--log-level <WORD> .*?: trace, debug, .*? \(default: info; SLUICE_LOG_LEVEL\)/)
  })

  test('leaves out the flags that a command does not use, and accepts them', async () => {
    const worker = await helpOf('worker')
    for (const flag of ['--listen', '--admin-key', '--api-rate', '--api-key']) assert.ok(!worker.includes(flag), flag)
    assert.match(worker, /--in-flight </)
    const migrate = await helpOf('migrate')
    assert.deepEqual(migrate.match(/--[a-z-]+/g), [
      '--config',
      '--store',
      '--store-direct',
      '--store-password-file',
      '--store-password-command',
      '--encryption-key',
      '--log-level',
      '--log-format',
      '--check',
      '--json',
      '--accept-loss',
      '--help',
    ])
    const { ended, err } = await runHere(['worker', '--listen', '127.0.0.1:0'], { directory: '.' }, {})
    assert.deepEqual([ended, err.startsWith('Workers need a Postgres store.')], [2, true])
  })
})

describe('a start that cannot succeed', () => {
  const cases: [string, string, Record<string, string>, number, RegExp][] = [
    [
      'names every wrong setting at once',
      'serve --lease 1x',
      { SLUICE_LISEN: 'x', SLUICE_STORE: 'y' },
      2,
      /^3 settings are wrong:\n.*SLUICE_LISEN.*did you mean SLUICE_LISTEN\?\n.*store.*\n.*lease/,
    ],
    ['knows no such command', 'serv', {}, 2, /unknown command 'serv'\n\(Did you mean serve\?\)/],
    ['knows no such flag', 'serve --lisen x', {}, 2, /unknown option '--lisen'/],
    [
      'has no workers on SQLite',
      'worker',
      {},
      2,
      /^Workers need a Postgres store\. With SQLite, `sluice serve` delivers by itself\./,
    ],
    [
      'cannot reach its database',
      'serve --listen 127.0.0.1:0',
      { SLUICE_STORE: 'postgres://u:hunter2-and-more@127.0.0.1:1/x', SLUICE_ENCRYPTION_KEY: testEncryptionKey },
      1,
      /^Cannot open the store: .*ECONNREFUSED/,
    ],
    [
      'has no key to seal with on Postgres',
      'serve --listen 127.0.0.1:0',
      { SLUICE_STORE: 'postgres://u:hunter2-and-more@127.0.0.1:1/x' },
      1,
      /^Cannot open the store: SLUICE_ENCRYPTION_KEY is not set/,
    ],
    [
      'cannot write its file',
      'serve --listen 127.0.0.1:0',
      { SLUICE_STORE: 'sqlite:/dev/null/x.db' },
      1,
      /^Cannot open the store: /,
    ],
  ]
  for (const [name, args, env, code, message] of cases) {
    test(`${name}: one message and exit code ${code}`, async () => {
      const { begin, run } = workplace()
      // The program itself opens the store, and turns errors of that into messages.
      const program = code === 2 ? begin(args, env) : run(args, env)
      assert.equal(await program.ended, code, program.err)
      assert.match(program.err, message)
      assert.doesNotMatch(program.err, /\n +at |hunter2-and-more/)
      assert.equal(program.out, '')
    })
  }
})

test('migrate makes the file and says which version it has', async () => {
  const program = workplace().run('migrate --store sqlite:new/place/x.db')
  assert.equal(await program.ended, 0, program.err)
  assert.match(program.out, /^sqlite:new\/place\/x\.db has schema version \d+ \(\w+\), the newest known\.\n$/)
})

test('help and version go to standard output and exit with 0', async () => {
  const { run } = workplace()
  const help = run('serve --help')
  const version = run('--version')
  assert.deepEqual([await help.ended, await version.ended], [0, 0])
  assert.match(help.out, /--in-flight-per-app <NUMBER>/)
  assert.match(version.out, /^\d+\.\d+\.\d+\n$/)
})

test('openapi prints the whole document', async () => {
  const whole = workplace().begin('openapi')
  assert.equal(await whole.ended, 0, whole.err)
  const document = JSON.parse(whole.out) as { openapi: string; paths: Record<string, unknown> }
  assert.equal(document.openapi, '3.1.0')
  assert.ok('/api/v1/app/{app_id}/msg' in document.paths)
})

describe('a reader that closes the output', () => {
  for (const args of ['completion bash', 'config', '--help', 'chaos --port 0']) {
    test(`ends \`sluice ${args}\` without a trace`, async () => {
      const { run } = workplace()
      const command = run(args)
      // Closed before the program writes, so its first write fails.
      command.child.stdout?.destroy()
      assert.deepEqual([await command.ended, command.err], [0, ''])
    })
  }

  test('does not end a server', async () => {
    const { run } = workplace()
    const server = run('serve --listen 127.0.0.1:0')
    server.child.stdout?.destroy()
    while (!/"msg":"started"/.test(server.err)) await once(server.child.stderr as Readable, 'data')
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 0, server.err)
    assert.match(server.err, /"msg":"stopped"/)
  })
})

test('openapi | head prints one line', async () => {
  const pipe = ['-c', 'set -o pipefail; "$0" "$1" openapi | head -1', process.execPath, main]
  const { stdout, stderr } = await promisify(execFile)('bash', pipe)
  assert.deepEqual([stdout, stderr], ['{\n', ''])
})
