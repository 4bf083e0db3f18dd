import assert from 'node:assert/strict'
import { chmodSync, chownSync, copyFileSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { storePassword } from '../../../src/runtime/store-password.ts'
import { openPostgresStore, type PostgresOptions } from '../../../src/store/postgres/open.ts'
import { atEnd } from '../../e2e/at-end.ts'
import { eventually } from '../../e2e/eventually.ts'
import { context } from '../postgres-harness.ts'
import { PostgresProcess } from '../postgres-process.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../../sender/fixtures/${name}.pem`, import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'sluice-logins-'))

const server = await PostgresProcess.make(folder, {
  ...{ shared_buffers: '32MB', ssl: 'on', ssl_cert_file: 'server.pem', ssl_key_file: 'server.pem' },
})
const { folder: data, uid, gid } = server.data
const inData = (name: string) => join(data, name)
copyFileSync(fixture('valid'), inData('server.pem'))
chmodSync(inData('server.pem'), 0o600)
if (uid !== undefined && gid !== undefined) chownSync(inData('server.pem'), uid, gid)
const rules = ['hostssl all tls 0.0.0.0/0 password', 'hostnossl all plain 0.0.0.0/0 password']
writeFileSync(inData('pg_hba.conf'), [...rules, 'host all postgres 0.0.0.0/0 password', ''].join('\n'))
await server.start()
after(() => server.remove())
for (const role of ['tls', 'plain', 'renewed']) await ask(`create role ${role} superuser login password 'postgres'`)
await ask('create database other')

async function ask(sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(server.url)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

/** Opens a store, and answers whether its connections are encrypted. */
async function opened(options: PostgresOptions): Promise<boolean> {
  const store = await openPostgresStore(context, options)
  try {
    const rows = await ask(
      `select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'sluice'`,
    )
    assert.equal(rows.length, 1, 'all connections are alike')
    return rows[0]?.ssl as boolean
  } finally {
    await store.close()
  }
}

const urlAs = (user: string, query: string, host = 'localhost') => {
  const url = new URL(server.url)
  url.hostname = host
  url.username = user
  return `${url.href}?${query}`
}
const authority = `sslrootcert=${fixture('authority')}`

const taken: [user: string, query: string, isEncrypted: boolean][] = [
  ['plain', 'sslmode=disable', false],
  ['postgres', 'sslmode=allow', false],
  ['tls', 'sslmode=allow', true],
  ['plain', 'sslmode=prefer', false],
  ['tls', 'sslmode=prefer', true],
  ['postgres', 'sslmode=require', true],
  ['postgres', `sslmode=verify-ca&${authority}`, true],
  ['postgres', `sslmode=verify-full&${authority}`, true],
]
for (const [user, query, isEncrypted] of taken) {
  test(`${user} with ${query.replace(/=\/.*/, '=…')} gets in, ${isEncrypted ? 'encrypted' : 'in the clear'}, without a warning`, async (t) => {
    const warnings: Error[] = []
    const note = (warning: Error) => warnings.push(warning)
    process.on('warning', note)
    atEnd(t, () => process.off('warning', note))
    assert.equal(await opened({ url: urlAs(user, query) }), isEncrypted)
    assert.deepEqual(warnings, [])
  })
}

const refused: [query: string, host: string, message: RegExp][] = [
  ['sslmode=verify-full', 'localhost', /self-signed|unable to verify/],
  [`sslmode=verify-ca&sslrootcert=${fixture('self-signed')}`, 'localhost', /unable to verify|certificate/],
]
for (const [query, host, message] of refused) {
  test(`a server whose certificate ${query.replace(/=\/.*/, '=…')} does not accept is refused`, async () => {
    await assert.rejects(openPostgresStore(context, { url: urlAs('postgres', query, host) }), { message })
  })
}

for (const [kind, settingsOf] of [
  ['file', (file: string) => ({ storePasswordFile: file, storePasswordCommand: null })],
  ['command', (file: string) => ({ storePasswordFile: null, storePasswordCommand: `cat '${file}'` })],
] as const) {
  test(`a password from a ${kind} is read again when the server refuses the one before`, async (t) => {
    const file = join(folder, `${kind}-password`)
    const change = async (password: string) => {
      await ask(`alter role renewed password '${password}'`)
      writeFileSync(file, `${password}\n`)
    }
    await change('first')
    const readPassword = storePassword(settingsOf(file))
    writeFileSync(inData('pg_hba.conf'), 'host all all 0.0.0.0/0 password\n')
    await ask('select pg_reload_conf()')
    const url = urlAs('renewed', '').replace('/postgres?', '/other?')
    const store = await openPostgresStore(context, { url, readPassword })
    atEnd(t, () => store.close())
    await change('second')
    await ask(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'renewed'`)
    // Each connection that the server ended is found so by one statement, and a password is read once a second at most.
    await eventually('the new password is used', () =>
      store.hasMessages().then(
        () => true,
        () => false,
      ),
    )
    await store.close()

    writeFileSync(file, '')
    await assert.rejects(openPostgresStore(context, { url, readPassword }), /the password cannot be read: .* is empty/)
    writeFileSync(file, 'wrong')
    await assert.rejects(openPostgresStore(context, { url, readPassword }), /password authentication failed/)
  })
}

test('a command without a password says why, and its output is not told', async () => {
  const readPassword = storePassword({
    storePasswordFile: null,
    storePasswordCommand: 'echo secret; echo no token today >&2; exit 3',
  })
  await assert.rejects(openPostgresStore(context, { url: server.url, readPassword }), ({ message }: Error) => {
    assert.match(message, /storePasswordCommand ended with 3: no token today/)
    assert.doesNotMatch(message, /secret/)
    return true
  })
  assert.throws(() => storePassword({ storePasswordFile: 'a', storePasswordCommand: 'b' }), /set one of them/)
})
