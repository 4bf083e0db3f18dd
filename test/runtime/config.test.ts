import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import {
  ConfigError,
  type Loaded,
  loadConfig,
  permittedNetworks,
  type SettingOrigins,
  showSetting,
} from '../../src/runtime/config.ts'
import { flagOf, variableOf } from '../../src/runtime/setting-names.ts'
import { settingNames } from '../../src/runtime/settings.ts'

const directory = mkdtempSync(join(tmpdir(), 'sluice-config-'))
after(() => rmSync(directory, { recursive: true }))

function load(sources: Partial<SettingOrigins> = {}): Loaded {
  return loadConfig({ flags: {}, env: {}, directory, version: '0.3.1', ...sources })
}

function problemsOf(sources: Partial<SettingOrigins>): readonly string[] {
  try {
    load(sources)
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error))
    return error.problems
  }
  assert.fail('no problem was found')
}

function file(name: string, content: unknown): string {
  writeFileSync(join(directory, name), typeof content === 'string' ? content : JSON.stringify(content))
  return name
}

describe('settings', () => {
  test('without any source every setting has its default and says so', () => {
    const { config, origins } = load()
    assert.deepEqual(config.store, { kind: 'sqlite', path: './data/sluice.db' })
    assert.deepEqual(config.listen, { host: '127.0.0.1', port: 8484 })
    assert.equal(config.allowNetworks, null)
    assert.equal(config.lease, 10_000)
    for (const name of settingNames) assert.equal(origins[name], 'default')
  })

  test('a flag beats a variable, a variable beats the file, the file beats the default', () => {
    const name = file('layers.json', { listen: '0.0.0.0:1', lease: '20s', inFlight: 7 })
    const { config, origins } = load({
      flags: { listen: '0.0.0.0:3' },
      env: { SLUICE_LISTEN: '0.0.0.0:2', SLUICE_LEASE: '30s' },
      file: name,
    })
    assert.deepEqual([config.listen.port, config.lease, config.inFlight, config.timeout], [3, 30_000, 7, 15_000])
    assert.deepEqual(
      [origins.listen, origins.lease, origins.inFlight, origins.timeout],
      ['flag --listen', 'environment SLUICE_LEASE', 'file layers.json', 'default'],
    )
  })

  test('every mistake of every source is named in one message', () => {
    const name = file('wrong.json', { lsten: 'x', inFlight: 1.5, bodyLimit: [1], local: 'yes' })
    const problems = problemsOf({
      flags: { lease: '0s' },
      env: {
        SLUICE_STORE: 'mysql://x',
        SLUICE_LISEN: 'a',
        SLUICE_ALLOW_NETWORKS: '10.0.0.0/33,ok',
        SLUICE_ADMIN_KEY: 'a b',
      },
      file: name,
    })
    assert.deepEqual(problems, [
      'lsten (file wrong.json): unknown setting; did you mean listen?',
      'SLUICE_LISEN (environment): unknown setting; did you mean SLUICE_LISTEN?',
      'store (environment SLUICE_STORE): must be sqlite:PATH or postgres://USER@HOST/DATABASE; not "mysql://x"',
      'adminKey (environment SLUICE_ADMIN_KEY): must be 16 to 256 visible ASCII characters without spaces, and no words, rows of keys or repetitions that others would try (make one with: openssl rand -hex 32); not the given value',
      'allowNetworks (environment SLUICE_ALLOW_NETWORKS): must be a list of networks such as 127.0.0.0/8,10.1.0.0/16,::1/128 (wrong: 10.0.0.0/33, ok); not "10.0.0.0/33,ok"',
      'local (file wrong.json): must be true or false; not "yes"',
      'lease (flag --lease): must be a duration such as 500ms, 10s or 2m from 1s to 10m; not "0s"',
      'inFlight (file wrong.json): must be a whole number from 1 to 100000; not 1.5',
      'bodyLimit (file wrong.json): must be a size such as 64KiB or 1MiB from 1KiB to 64MiB; not [1]',
    ])
  })

  test('egress proxies are shown without their passwords, and a wrong one is not repeated', () => {
    const env = {
      SLUICE_EGRESS_PROXY: 'http://u:hidden@proxy.internal, eu=socks5://10.0.0.7',
      SLUICE_NO_PROXY: '.corp',
    }
    const { config } = load({ env })
    assert.deepEqual(
      config.egressProxy.map(({ name, kind, port, password }) => [name, kind, port, password]),
      [
        [null, 'http', 3128, 'hidden'],
        ['eu', 'socks5', 1080, ''],
      ],
    )
    assert.equal(showSetting('egressProxy', config), '****')
    const two = 'http://a,http://b'
    for (const wrong of ['hidden@proxy', two, 'direct=http://a']) {
      const [problem = ''] = problemsOf({ env: { SLUICE_EGRESS_PROXY: wrong } })
      assert.match(
        problem,
        /^egressProxy \(environment SLUICE_EGRESS_PROXY\): must be proxies .*; not the given value$/,
      )
    }
  })

  test('a source that is written for a newer version may name settings that this one does not know', () => {
    const later = file('later.json', { settingsVersion: '0.4.0', laneColour: 'red', inFlght: 3, inFlight: 7 })
    const { config, warnings } = load({ file: later })
    assert.equal(config.inFlight, 7)
    const ignored = 'It is ignored: the settings are written for 0.4.0, and this is 0.3.1'
    assert.deepEqual(warnings, [
      `laneColour (file later.json): unknown setting. ${ignored}`,
      `inFlght (file later.json): unknown setting; did you mean inFlight? ${ignored}`,
    ])
    const env = { SLUICE_SETTINGS_VERSION: '1.0.0', SLUICE_LANE_COLOUR: 'red' }
    assert.equal(load({ env }).warnings.length, 1)
    // Each source speaks for itself.
    assert.deepEqual(problemsOf({ env, file: file('now.json', { laneColour: 'red' }) }), [
      'laneColour (file now.json): unknown setting',
    ])
  })

  test('a source that is written for this version or an earlier one is read strictly', () => {
    for (const written of ['0.3.1', '0.3.0', '0.2.9', '0.3.1-rc.1']) {
      const env = { SLUICE_SETTINGS_VERSION: written, SLUICE_LANE_COLOUR: 'red' }
      assert.deepEqual(problemsOf({ env }), ['SLUICE_LANE_COLOUR (environment): unknown setting'], written)
    }
    for (const written of ['', 'latest', '0.4', '99']) {
      const env = { SLUICE_SETTINGS_VERSION: written, SLUICE_LANE_COLOUR: 'red' }
      assert.deepEqual(problemsOf({ env }), [
        'SLUICE_SETTINGS_VERSION (environment): must be a version such as 0.3.1',
        'SLUICE_LANE_COLOUR (environment): unknown setting',
      ])
    }
    assert.deepEqual(problemsOf({ file: file('odd.json', { settingsVersion: 4 }) }), [
      'settingsVersion (file odd.json): must be a version such as 0.3.1',
    ])
  })

  test('a value that only a newer version knows is refused, because ignoring it would set the default', () => {
    const env = { SLUICE_SETTINGS_VERSION: '0.4.0', SLUICE_LEASE: 'adaptive' }
    assert.match(problemsOf({ env }).join(), /lease \(environment SLUICE_LEASE\): must be a duration/)
  })

  test('the file is named by flag, by variable, or is sluice.json if that exists', () => {
    assert.equal(load({ env: { SLUICE_CONFIG: file('named.json', { inFlight: 3 }) } }).config.inFlight, 3)
    const name = file('sluice.json', { inFlight: 4 })
    assert.equal(load().config.inFlight, 4)
    rmSync(join(directory, name))
    assert.deepEqual(problemsOf({ file: 'absent.json' }), ['file absent.json: does not exist'])
    assert.match(problemsOf({ file: file('broken.json', '{') })[0] as string, /^file broken.json: is not valid JSON/)
    assert.deepEqual(problemsOf({ file: file('list.json', []) }), ['file list.json: must be a JSON object of settings'])
  })

  const good: [string, string, unknown][] = [
    ['listen', '[::1]:0', { host: '::1', port: 0 }],
    ['listen', 'localhost:80', { host: 'localhost', port: 80 }],
    ['store', 'sqlite:/a b/c.db', { kind: 'sqlite', path: '/a b/c.db' }],
    ['store', 'postgresql://u@h/d', { kind: 'postgres', url: 'postgresql://u@h/d' }],
    ['lease', '2m', 120_000],
    ['lease', '1500', 1500],
    ['bodyLimit', '2MiB', 2_097_152],
    ['allowNetworks', '', []],
    ['allowNetworks', '10.0.0.1', ['10.0.0.1']],
    ['allowNetworks', ' 127.0.0.0/8 , ::1/128 ', ['127.0.0.0/8', '::1/128']],
    ['allowHttp', '1', true],
    ['logLevel', 'silent', 'silent'],
  ]
  for (const [name, text, value] of good) {
    test(`${name} reads ${JSON.stringify(text)}`, () => {
      const { config } = load({ env: { [variableOf(name)]: text } })
      assert.deepEqual(config[name as keyof typeof config], value)
    })
  }

  const bad: [string, string][] = [
    ['listen', '8484'],
    ['listen', '127.0.0.1:65536'],
    ['listen', '::1:80'],
    ['listen', '[zz]:80'],
    ['store', 'sqlite:'],
    ['store', 'postgres://['],
    ['lease', '10 s'],
    ['lease', '-1s'],
    ['lease', '1e3'],
    ['lease', '11m'],
    ['inFlight', '0'],
    ['inFlight', '99999999999999999999'],
    ['allowNetworks', '10.0.0'],
    ['allowNetworks', '::/129'],
    ['logLevel', 'loud'],
  ]
  for (const [name, text] of bad) {
    test(`${name} refuses ${JSON.stringify(text)}`, () => {
      assert.equal(problemsOf({ env: { [variableOf(name)]: text } }).length, 1)
    })
  }

  test('a fixed key that can be guessed is refused', () => {
    const short = ['1', 'hunter2', 'a'.repeat(64), 'abababababababab']
    const rows = [
      '1234567890123456',
      '0987654321fedcba',
      'qwertyuiopasdfgh',
      'sk_0123456789abc',
      'aaaabbbbccccddddeeee',
    ]
    const words = [
      'passwordpassword',
      'ChangeMe-ChangeMe',
      'my-secret-admin-key',
      'sluice-admin-key-1',
      'PasswordPassword1!',
    ]
    for (const weak of [...short, ...rows, ...words]) {
      assert.throws(
        () => load({ env: { SLUICE_ADMIN_KEY: weak } }),
        /adminKey .* must be 16 to 256 .*openssl rand/,
        weak,
      )
    }
    for (const good of ['sk_7Qd2vX9bRk4mTz', 'e3b0c44298fc1c149afbf4c8996fb924', 'correct-horse-battery']) {
      assert.equal(load({ env: { SLUICE_ADMIN_KEY: good } }).config.adminKey, good)
    }
  })

  test('secrets and passwords are masked when shown', () => {
    const { config } = load({
      env: {
        SLUICE_ADMIN_KEY: 'hunter2-and-more',
        SLUICE_STORE: 'postgres://user:hunter2-and-more@db:5432/x?sslpassword=hunter2-and-more',
      },
    })
    const shown = settingNames.map((name) => showSetting(name, config)).join('\n')
    assert.doesNotMatch(shown, /hunter2-and-more/)
    assert.match(shown, /postgres:\/\/\*\*\*\*@db:5432\/x/)
  })

  test('nothing in front of an @ is shown, also of what is refused', () => {
    const { config } = load({
      env: { SLUICE_STORE: 'postgres://hunter2@db/x', SLUICE_PUBLIC_URL: 'https://hunter2:hunter2@hooks.example.com' },
    })
    assert.equal(showSetting('store', config), 'postgres://****@db/x')
    assert.equal(showSetting('publicUrl', config), 'https://****@hooks.example.com')
    for (const wrong of [
      'postgres//u:hunter2@db/x',
      'postgres:u:hunter2@db',
      'postgrs://u:a/hunter2@db?sslkey=hunter2',
    ]) {
      assert.throws(
        () => load({ env: { SLUICE_STORE: wrong } }),
        (error: Error) => /must be sqlite:PATH/.test(error.message) && !/hunter2/.test(error.message),
      )
    }
  })

  test('shown durations and sizes can be typed back', () => {
    const { config } = load({ env: { SLUICE_LEASE: '90s', SLUICE_BODY_LIMIT: '1500', SLUICE_SHUTDOWN_LIMIT: '0' } })
    assert.deepEqual(
      [showSetting('lease', config), showSetting('bodyLimit', config), showSetting('shutdownLimit', config)],
      ['90s', '1500B', '0ms'],
    )
  })

  test('names of flags and variables follow from the setting', () => {
    assert.deepEqual(
      [flagOf('inFlightPerApp'), variableOf('inFlightPerApp')],
      ['--in-flight-per-app', 'SLUICE_IN_FLIGHT_PER_APP'],
    )
  })
})

describe('permitted networks', () => {
  const loopback = ['127.0.0.0/8', '::1/128']
  const cases: [string, Record<string, string>, readonly string[]][] = [
    ['none when nothing is said', {}, []],
    ['loopback for a local server on loopback', { SLUICE_LOCAL: 'true' }, loopback],
    ['loopback for a local server on ::1', { SLUICE_LOCAL: 'true', SLUICE_LISTEN: '[::1]:0' }, loopback],
    ['none for a local server that others can reach', { SLUICE_LOCAL: 'true', SLUICE_LISTEN: '0.0.0.0:0' }, []],
    ['exactly the list, even empty', { SLUICE_LOCAL: 'true', SLUICE_ALLOW_NETWORKS: '' }, []],
    ['exactly the list', { SLUICE_LOCAL: 'true', SLUICE_ALLOW_NETWORKS: '10.1.0.0/16' }, ['10.1.0.0/16']],
  ]
  for (const [name, env, networks] of cases) {
    test(name, () => assert.deepEqual(permittedNetworks(load({ env }).config), networks))
  }
})
