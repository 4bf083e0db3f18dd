import assert from 'node:assert/strict'
import { existsSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { workplace } from './program.ts'

const listening = /Listening on (http:\/\/\S+)/
const env = { SLUICE_ADMIN_KEY: 'sk_fixed_0123456789', SLUICE_LISTEN: '127.0.0.1:0' }
const headers = { authorization: 'Bearer sk_fixed_0123456789', 'content-type': 'application/json' }

test('a lost key file stops the start with the name of the key, and put back, everything opens again', async () => {
  const { directory, run, begin } = workplace()
  const file = join(directory, 'data/encryption.key')
  const store = `sqlite:${join(directory, 'data/sluice.db')}`
  const first = begin(`serve --store ${store}`, env)
  const address = await first.says(listening)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const post = (path: string, body: unknown) =>
    fetch(`${address}/api/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  await post('/app', { name: 'A', uid: 'a' })
  await post('/app/a/endpoint', { uid: 'one', url: 'https://example.com/' })
  const secretAt = async (base: string) => {
    const answer = await fetch(`${base}/api/v1/app/a/endpoint/one/secret`, { headers })
    return ((await answer.json()) as { key: string }).key
  }
  const secret = await secretAt(address)
  first.stop('SIGTERM')
  assert.equal(await first.ended, 0)

  renameSync(file, `${file}.kept`)
  const second = run('serve', env)
  assert.equal(await second.ended, 1)
  assert.match(
    second.err,
    /^Cannot open the store: the secrets of an endpoint are sealed with the encryption key [0-9a-f]{8}, not given here: put the file encryption\.key back beside the database, or add the key to encryptionKey\.\n$/,
  )

  assert.ok(!existsSync(file), 'no new key is left, which would open nothing')
  renameSync(`${file}.kept`, file)
  const third = begin(`serve --store ${store}`, env)
  assert.equal(await secretAt(await third.says(listening)), secret)
  third.stop('SIGTERM')
  assert.equal(await third.ended, 0)
})
