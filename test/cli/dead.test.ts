import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { type Served, served, workplace } from './program.ts'

const noRetry = '{"waits":{"kind":"list","ms":[]}}'

describe('dead letters', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
  })

  /** An application whose only receiver fails until the test heals it, and as many dead letters. */
  async function failing(receiver: Receiver, uid: string, count: number): Promise<void> {
    const { sluice, json } = place
    receiver.behave(`/${uid}`, () => ({ status: 400 }))
    await sluice(['app', 'create', uid, '--uid', uid])
    await sluice(['endpoint', 'create', uid, `${receiver.url}/${uid}`, '--uid', 'main', '--retry', noRetry])
    const messages = Array.from({ length: count }, (_, i) => `{"eventType":"a.b","payload":{ "n": ${i}.0 }}`)
    const sent = await fetch(`${place.url}/api/v1/app/${uid}/msg/batch`, {
      method: 'POST',
      headers: { authorization: `Bearer ${place.env.SLUICE_API_KEY}`, 'content-type': 'application/json' },
      body: `{"messages":[${messages.join(',')}]}`,
    })
    assert.equal(sent.status, 202, await sent.text())
    await eventually('every message is a dead letter', async () => {
      return (await json<unknown[]>(`dead list ${uid} --limit 1000`)).length === count
    })
  }

  test('are exported, purged, imported and replayed, and arrive with the same bytes and ids', async (t) => {
    const { sluice, json } = place
    const receiver = await Receiver.listen(t)
    await failing(receiver, 'round', 3)
    const key = (arrival: (typeof receiver.arrivals)[number]) =>
      `${arrival.headers['webhook-id']} ${arrival.body.toString('latin1')}`
    const failed = receiver.arrivals.map(key).sort()
    assert.equal(await sluice('dead export round --output dead.jsonl'), '3 dead letters written to dead.jsonl.\n')
    assert.equal(await sluice('dead purge round --all'), '3 dead letters purged.\n')
    assert.equal(await sluice('dead import round dead.jsonl'), '3 dead letters imported.\n')
    assert.equal(
      await sluice('dead import round dead.jsonl'),
      '0 dead letters imported. 3 unchanged: imported before, or sent again since.\n',
    )
    receiver.behave('/round', () => ({ status: 200 }))
    assert.equal(await sluice('dead replay round --all --per-second 100'), '3 dead letters replayed.\n')
    await receiver.until('the replay', () => receiver.arrivals.length === 6)
    assert.deepEqual(receiver.arrivals.slice(3).map(key).sort(), failed)
    assert.deepEqual(await json('dead import round dead.jsonl'), { imported: 0, unchanged: 3, skipped: [] })

    // A file of several applications: each letter goes to its own, by id, or by uid where no application has the id.
    await failing(receiver, 'second', 2)
    await sluice('dead export --output all.jsonl')
    const kept = (await sluice('dead export')).trim().split('\n')
    const apps = new Set(kept.map((line) => JSON.parse(line).appUid))
    assert.deepEqual(apps, new Set(['second']))
    await sluice('dead purge second --all')
    const mixed = `${readFileSync(join(place.directory, 'dead.jsonl'), 'utf8')}${kept.join('\n')}\n`
    const elsewhere = mixed.replaceAll(/"appId":"app_\w/g, '"appId":"app_0')
    writeFileSync(join(place.directory, 'all.jsonl'), elsewhere)
    assert.deepEqual(await json('dead import all.jsonl'), { imported: 2, unchanged: 3, skipped: [] })
    await sluice('dead import nowhere all.jsonl', 4)
    writeFileSync(join(place.directory, 'foreign.jsonl'), elsewhere.replaceAll('"appUid":"second"', '"appUid":"gone"'))
    assert.match(
      await sluice('dead import foreign.jsonl', 1),
      /foreign\.jsonl:4: appId names no application, and neither does appUid/,
    )
    await sluice('dead purge second --all')

    // To another application, whose endpoint has the same name.
    await sluice('app create Other --uid other')
    await sluice(`endpoint create other ${receiver.url}/other --uid main`)
    assert.equal((await json('dead import other dead.jsonl')).imported, 3)
    const all = await sluice('dead list')
    assert.match(all, /^DIED +APPLICATION +MESSAGE/)
    assert.equal(all.trimEnd().split('\n').length, 4)
    await sluice('dead list --endpoint main', 2)
    assert.equal((await sluice('dead export')).trimEnd().split('\n').length, 3)
    await sluice('dead purge other --all')
  })

  test('are listed by a view, which is saved, shown, changed and deleted, and so are endpoints', async (t) => {
    const { sluice, json } = place
    const receiver = await Receiver.listen(t)
    await failing(receiver, 'seen', 2)
    const flags = '--of dead-letters --app seen --event-type a.* --within 1h'
    const made = await json(['view', 'create', 'Dead of seen', '--uid', 'seen', ...flags.split(' ')])
    const { of, app, eventTypes, withinSeconds } = made
    assert.deepEqual([of, app, eventTypes, withinSeconds], ['dead-letters', 'seen', ['a.*'], 3600])
    assert.match(
      await sluice('view list'),
      /^seen +Dead of seen +dead-letters +app seen, event type a\.\*, within 1 h$/m,
    )
    assert.equal((await json<unknown[]>('view open seen')).length, 2)
    assert.match(await sluice('view open seen'), /^just now +app_\w+ +msg_\w+ +a\.b .*\/seen +exhausted$/m)
    assert.match(await sluice('view show seen'), /^within +1 h$/m)
    assert.match(await sluice('view update seen --reason gone --unset within'), /^reason +gone$/m)
    assert.equal(await sluice('view open seen'), 'Nothing is in the view Dead of seen.\n')
    assert.match(await sluice('view update seen --search x', 2), /search: belongs to views of endpoints/)
    assert.match(await sluice('view create Bad', 2), /of: is required/)
    assert.equal(await sluice('view delete seen'), 'Deleted view seen.\n')
    await sluice('view create Seen --uid endpoints --of endpoints --app seen --search main')
    assert.match(await sluice('view open endpoints'), /^main +seen +http.*\/seen +0 /m)
    assert.match(await sluice('view show nowhere', 4), /There is no view "nowhere"/)
  })

  test('are not imported at all when a line is bad, unless it is to be skipped', async (t) => {
    const { sluice, json, directory } = place
    const receiver = await Receiver.listen(t)
    await failing(receiver, 'bad', 2)
    await sluice('dead export bad --output bad.jsonl')
    await sluice('dead purge bad --all')
    const file = join(directory, 'bad.jsonl')
    const text = readFileSync(file, 'utf8')
    appendFileSync(file, '{"msgId":"x"}\nnonsense\n')
    const said = await sluice('dead import bad bad.jsonl', 1)
    assert.match(said, /^bad\.jsonl:3: endpointId is required; /)
    assert.match(said, /^bad\.jsonl:4: /m)
    assert.match(said, /Nothing was imported\. --skip-bad imports the others\.\n$/)
    assert.deepEqual(await json('dead list bad'), [])
    const skipped = await json('dead import bad bad.jsonl --skip-bad')
    assert.deepEqual([skipped.imported, (skipped.skipped as unknown[]).length], [2, 2])
    assert.match(await sluice('dead import bad nowhere.jsonl', 1), /^There is no file nowhere\.jsonl\.\n$/)
    await sluice('dead import nobody bad.jsonl', 4)
    writeFileSync(file, '')
    assert.equal(await sluice('dead import bad bad.jsonl'), '0 dead letters imported.\n')
    // More lines than one request takes, and the number of the bad one is that in the file.
    writeFileSync(file, text.repeat(250).concat('oops'))
    assert.match(await sluice('dead import bad bad.jsonl', 1), /^bad\.jsonl:501: /)
  })

  test('are replayed by a task that can be listed, shown, paused, resumed and cancelled', async (t) => {
    const { sluice, json } = place
    const receiver = await Receiver.listen(t)
    // At one a second this takes longer than the test, however slow the machine.
    await failing(receiver, 'paced', 300)
    receiver.behave('/paced', () => ({ status: 200 }))
    const { id } = await json('dead replay paced --all --per-second 1 --no-wait')
    await receiver.until('one is replayed', () => receiver.arrivals.length > 300)
    assert.match(await sluice(`task pause ${id}`), /^dead\.replay is paused: \d+ of 300 scanned, \d+ replayed\.\n$/)
    const line = new RegExp(`${id}  dead\\.replay  paused +\\d+ of 300 scanned`)
    assert.match(await sluice('task list --state paused'), line)
    const shown = await sluice(`task show ${id}`)
    assert.match(shown, /^state +paused$/m)
    assert.match(shown, /^pace +1 a second$/m)
    assert.deepEqual(await json('task list --state running --type dead.replay'), [])
    const paused = receiver.arrivals.length
    assert.equal((await json(`task resume ${id}`)).state, 'running')
    await receiver.until('it goes on', () => receiver.arrivals.length > paused)
    assert.match(await sluice(`task cancel ${id}`), /^dead\.replay is cancelled: /)
    assert.match(await sluice(`task resume ${id}`, 6), /^The task has ended\.\n$/)
    const again = receiver.arrivals.slice(300).map(({ headers }) => headers['webhook-id'])
    assert.equal(new Set(again).size, again.length)
    await sluice('task show qtask_nobody', 4)

    const following = place.begin(['dead', 'replay', 'paced', '--all', '--per-second', '1'], place.env)
    let task: { id: string } | undefined
    await eventually('the task runs', async () => {
      task = (await json<{ id: string }[]>('task list --state running'))[0]
      return task !== undefined
    })
    assert.equal((await json(`task cancel ${task?.id}`)).state, 'cancelled')
    assert.equal(await following.ended, 1)
    assert.match(following.err, /was cancelled: \d+ (of \d+ )?scanned/)
  })
})
