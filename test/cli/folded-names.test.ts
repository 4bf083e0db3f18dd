import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type Served, served, workplace } from './program.ts'

const where = workplace()
let place: Served
before(async () => {
  place = await served(where)
})

test('a command that names . or .. or nothing in a path sends no request', async () => {
  const { sluice, json } = place
  await sluice(['app', 'create', 'Acme', '--uid', 'acme'])
  await sluice(['app', 'create', 'Dead', '--uid', 'dead'])
  await sluice(['endpoint', 'create', 'acme', 'https://example.com/', '--uid', 'main'])
  const commands = [
    ...['endpoint delete acme .. --yes', 'endpoint delete acme . --yes', 'endpoint get acme ..', 'endpoint list ..'],
    ...['app delete . --yes', 'app get ..', 'schedule delete acme .. --yes', 'event-type delete .. --expunge --yes'],
    ...['messages acme ..', 'resend acme .. ..', 'lane acme ..', 'key revoke . --yes', 'task show ..', 'why ..'],
    ...[
      'dead list ..',
      'tail --app .. --endpoint main',
      'source delete .. --app acme --yes',
      'region delete acme .. --yes',
    ],
  ].map((command) => command.split(' '))
  // Two slashes may be taken for one: this asked for the dead letters of no application, and `DELETE /app/dead`.
  commands.push(
    ['dead', 'purge', '', '--all', '--yes'],
    ['app', 'delete', '', '--yes'],
    ['endpoint', 'get', 'acme', ''],
  )
  for (const command of commands) {
    const err = await sluice(command, 2)
    assert.match(err, /^[^\n]*"\.{0,2}" names nothing: in a URL it stands for another path/, command.join(' '))
  }
  const apps = await json<{ uid: string }[]>('app list')
  assert.deepEqual(apps.map(({ uid }) => uid).sort(), ['acme', 'dead'])
  assert.equal((await json('endpoint get acme main')).uid, 'main')
})
