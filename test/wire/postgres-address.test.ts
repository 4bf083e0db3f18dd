import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readPostgresUrl } from '../../src/wire/postgres-address.ts'

const at = (...hosts: [host: string | undefined, port: number | undefined][]) =>
  hosts.map(([host, port]) => ({ host, port }))

test('a URL names one server or several', () => {
  const hosts = (url: string) => readPostgresUrl(url).hosts
  assert.deepEqual(hosts('postgres://db.example.com/sluice'), at(['db.example.com', undefined]))
  assert.deepEqual(hosts('postgresql://u:p@a:5433,b,[::1]:5434/db'), at(['a', 5433], ['b', undefined], ['::1', 5434]))
  assert.deepEqual(hosts('postgres://a,b,c/db'), at(['a', undefined], ['b', undefined], ['c', undefined]))
  assert.deepEqual(hosts('postgres:///db?host=a,b&port=1,2'), at(['a', 1], ['b', 2]))
  assert.deepEqual(hosts('postgres://%2Fvar%2Frun%2Fpostgresql/db'), at(['/var/run/postgresql', undefined]))
  assert.deepEqual(hosts('postgres:///db'), at([undefined, undefined]))
})

test('the login is decoded, and a password may have any character', () => {
  const { user, password, database } = readPostgresUrl('postgres://me%40here:p:a%2Fs@s@a/my%20db')
  assert.deepEqual({ user, password, database }, { user: 'me@here', password: 'p:a/s@s', database: 'my db' })
})

test('sslmode has the meaning of libpq', () => {
  const mode = (query: string) => readPostgresUrl(`postgres://a/db?${query}`).sslMode
  assert.equal(mode(''), undefined)
  for (const each of ['disable', 'allow', 'prefer', 'require', 'verify-full'])
    assert.equal(mode(`sslmode=${each}`), each)
  assert.equal(mode('sslmode=verify-ca&sslrootcert=/ca.pem'), 'verify-ca')
  assert.equal(mode('sslmode=require&sslrootcert=/ca.pem'), 'verify-ca')
  assert.equal(mode('sslrootcert=/ca.pem'), 'verify-full')
  assert.equal(mode('sslnegotiation=direct'), 'verify-full')
  assert.equal(mode('ssl=true'), 'verify-full')
  assert.equal(mode('sslmode=no-verify'), 'require')
})

test('further parameters are those of the driver', () => {
  const { others } = readPostgresUrl(
    'postgres://a/db?application_name=x&options=-c%20a%3Db&target_session_attrs=primary',
  )
  assert.deepEqual(others, { application_name: 'x', options: '-c a=b' })
})

const wrong = {
  'postgres://a:b:c/db': /HOST:PORT/,
  'postgres://a:0/db': /ports from 1 to 65535/,
  'postgres://a:70000/db': /ports from 1 to 65535/,
  'postgres://a,,b/db': /a name for each/,
  'postgres:///db?host=a,b&port=1,2,3': /as many as hosts/,
  'postgres://a/db?target_session_attrs=standby': /target_session_attrs is read-write/,
  'postgres://a/db?sslmode=on': /sslmode is one of disable, allow/,
  'postgres://a/db?sslmod=verify-full': /unknown parameter sslmod/,
  'postgres://a/db?sslmode=verify-ca': /sslrootcert/,
  'mysql://a/db': /postgres:\/\/USER@HOST/,
}

for (const [url, message] of Object.entries(wrong)) {
  test(`${url} is refused`, () => assert.throws(() => readPostgresUrl(url), { name: 'WrongPostgresUrl', message }))
}
