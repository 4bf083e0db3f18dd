import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { adminKey, RunHere, type Served, served, workplace } from './program.ts'

describe('login', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
  })

  /** A command of a user with a home of their own, and nothing in the environment but that. */
  async function sluice(line: string, env: Record<string, string> = {}, input = '') {
    const home = { HOME: place.directory, ...env }
    const run = new RunHere(line.split(' '), place.directory, home, input)
    return { ended: await run.ended, out: run.out, err: run.err }
  }
  const file = () => join(place.directory, '.config/sluice/profiles.json')

  test('keeps a server and its key for later commands, in a file for its owner alone', async () => {
    const { url } = place
    const refused = await sluice(`login --url ${url} --key sk_${'0'.repeat(36)}`)
    assert.equal(refused.ended, 5)
    const { ended, out } = await sluice(`login --url ${url} --profile prod`, {}, `${adminKey}\n`)
    assert.deepEqual([ended, out.includes(adminKey)], [0, false])
    assert.match(out, /Signed in to .* as fixed\.\nLater commands use the profile prod of /)
    assert.equal(statSync(file()).mode & 0o777, 0o600)
    assert.equal((await sluice('app list')).ended, 0)
    assert.match(
      (await sluice('whoami')).out,
      new RegExp(`^server {3}${url}\nkey {6}fixed\nmay {6}admin\nexpires {2}never\n$`),
    )
  })

  test('flags and variables come first, and no key goes to another server', async () => {
    const { url } = place
    assert.match(
      (await sluice('app list --url http://127.0.0.1:9')).err,
      /Cannot reach the server at http:\/\/127\.0\.0\.1:9/,
    )
    // The same server by another name is another server: the key of the profile stays at home.
    const other = await sluice('app list', { SLUICE_URL: url.replace('127.0.0.1', 'localhost') })
    assert.match(other.err, /An API key is required/)
    assert.equal((await sluice('app list --profile prod', { SLUICE_URL: 'http://127.0.0.1:9' })).ended, 0)
    assert.match(
      (await sluice('app list --profile prod --url http://127.0.0.1:9')).err,
      /Cannot reach the server at http:\/\/127/,
    )
    const unknown = await sluice('app list', { SLUICE_PROFILE: 'staging' })
    assert.match(unknown.err, /There is no profile staging\. There are prod\. Add it: sluice login --profile staging/)
  })

  test('a damaged file says what to do, and logout forgets', async () => {
    const text = readFileSync(file(), 'utf8')
    writeFileSync(file(), '{')
    assert.match(
      (await sluice('app list')).err,
      /profiles\.json is damaged\. Delete it, and sign in again: sluice login/,
    )
    writeFileSync(file(), text)
    assert.match((await sluice('logout')).out, /^Forgot the profile prod\./)
    assert.doesNotMatch(readFileSync(file(), 'utf8'), new RegExp(adminKey))
    assert.equal((await sluice('logout')).ended, 4)
  })
})
