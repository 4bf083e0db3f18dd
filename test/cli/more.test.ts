import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { type Served, served, workplace } from './program.ts'

const document = {
  openapi: '3.1.0',
  info: { title: 'Video', version: '1' },
  webhooks: { 'video.made': { post: { description: 'A video was made.', responses: {} } } },
}

describe('more commands', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
    await place.sluice('app create Acme --uid acme')
  })

  test('event types are made, changed, archived, removed and imported', async () => {
    const { sluice, json } = place
    const first = await place.try('event-type create video.up Up --group video')
    assert.match(first.err, /^Note: this is the first event type of the server\. .*SLUICE_CHECK_EVENT_TYPES=never/)
    assert.equal((await place.try('event-type create video.down Down')).err, '')
    await sluice('event-type delete video.down --expunge')
    await sluice(['event-type', 'update', 'video.up', '--description', 'A video is up'])
    assert.match(await sluice('event-type list'), /^video\.up +video +A video is up +active$/m)
    assert.equal((await json('event-type update video.up --deprecated')).deprecated, true)
    assert.match(await sluice('event-type get video.up'), /^state +deprecated$/m)
    await sluice('event-type delete video.up')
    assert.equal(
      await sluice('event-type list'),
      'No event types. Until one exists, endpoints may subscribe to any name.\n',
    )
    assert.match(await sluice('event-type list --archived'), /archived$/m)
    await sluice('event-type delete video.up --expunge')
    await sluice('event-type get video.up', 4)

    writeFileSync(join(where.directory, 'openapi.json'), JSON.stringify(document))
    assert.equal(
      await sluice('event-type import openapi.json --dry-run'),
      '1 event type would be created or changed:\n  video.made\n',
    )
    await sluice('event-type get video.made', 4)
    await sluice('event-type import openapi.json')
    assert.equal((await json('event-type get video.made')).description, 'A video was made.')
    assert.equal(await sluice('event-type import nowhere.json', 2), 'Cannot read nowhere.json: no such file.\n')
  })

  test('health is an exit code, without a key', async () => {
    assert.equal(await place.sluice('health'), 'Healthy.\n')
    assert.equal((await place.json('health')).status, 'healthy')
    assert.equal(await place.sluice('health --live'), 'Healthy.\n')
    // Docker reserves every other code.
    const { ended, err } = await place.try('health --url http://127.0.0.1:1')
    assert.equal(ended, 1)
    assert.match(err, /Cannot reach the server/)
  })

  test('the audit log says who did what and that it is whole', async () => {
    const { sluice, json } = place
    await sluice('app create Audited --uid audited')
    const { token } = await json('key create auditor --scope admin')
    const { id } = await json(`app get audited --key ${token}`)
    await sluice(`app update ${id} --name Renamed --key ${token}`)
    const rows = await sluice('audit list --limit 5')
    assert.match(rows, /^20\d\d-\S+ \S+ +auditor +\S+ +update app +app\/audited$/m, 'names in place of ids')
    assert.match(rows, /^20\d\d-.* +fixed +\S+ +create app +app$/m)
    const [newest] = await json<Record<string, unknown>[]>('audit list --limit 1')
    assert.deepEqual([newest?.action, newest?.target], ['PATCH /app/:app', `/api/v1/app/${id}`], 'JSON has it as it is')
    assert.equal((await json('audit verify')).whole, true)
    assert.match(await sluice('audit verify'), /^The log is intact: \d+ rows\.$/m)
    assert.deepEqual(await json('audit list --before 2000-01-01T00:00:00Z'), [])
  })

  test('a portal link is one line, for pasting', async () => {
    assert.match(await place.sluice('app portal acme --read-only'), /^http\S+\/portal#app=app_\w+&token=appsk_\w+\n$/)
    await place.sluice('app portal nobody', 4)
  })

  test('failed deliveries are sent again, one by one or all since an instant', async (t) => {
    const { sluice, json } = place
    const receiver = await Receiver.listen(t)
    let status = 500
    receiver.behave('/', () => ({ status }))
    const noRetry = '{"waits":{"kind":"list","ms":[]}}'
    await sluice(['endpoint', 'create', 'acme', `${receiver.url}/`, '--uid', 'main', '--retry', noRetry])
    const { id } = await json('send acme x.y {}')
    await json('send acme x.y {}')
    // An attempt that is still open would be taken for the one that is asked for.
    await eventually('both are dead letters', async () => (await json<unknown[]>('dead list acme')).length === 2)
    status = 204
    await sluice(`resend acme ${id} main`)
    await receiver.until('the one sent again', () => receiver.arrivals.length === 3)
    assert.equal(await sluice('recover acme main --since 1h'), 'Queued again: 1 message.\n')
    await receiver.until('the other one', () => receiver.arrivals.length === 4)
    assert.match(await sluice('recover acme main', 2), /--since/)
  })
})
