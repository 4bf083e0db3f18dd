import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { progressLine } from '../../src/cli/terminal.ts'
import { Receiver } from '../e2e/receiver.ts'
import { type Served, served, workplace } from './program.ts'

const noRetry = '{"waits":{"kind":"list","ms":[]}}'

// Some of it waits for a server to get round to something.
describe('looking back', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
  })

  test('messages and attempts are listed and shown, newest first, with filters', async (t) => {
    const { sluice, json } = place
    const receiver = await Receiver.listen(t)
    receiver.behave('/bad', () => ({ status: 503 }))
    await sluice('app create A --uid a')
    await sluice(`endpoint create a ${receiver.url}/good --uid good`)
    const never = JSON.stringify({ waits: { kind: 'list', ms: [3_600_000] }, jitter: 'none' })
    await sluice(['endpoint', 'create', 'a', `${receiver.url}/bad`, '--uid', 'bad', '--retry', never])
    const first = await json(['send', 'a', 'x.one', '{"big":9007199254740993}', '--event-id', 'e-1'])
    const second = await json('send a x.two {}')
    await receiver.until('all attempts', () => receiver.arrivals.length === 4)
    const list = (await sluice('messages a')).split('\n')
    assert.match(list[0] ?? '', /^ACCEPTED +MESSAGE +EVENT TYPE +EVENT ID$/)
    assert.ok(list[1]?.includes(`${second.id}  x.two`))
    assert.ok(list[2]?.includes(`${first.id}  x.one       e-1`))
    assert.deepEqual(
      (await json<{ id: string }[]>('messages a --event-type x.one')).map(({ id }) => id),
      [first.id],
    )
    assert.equal(
      await sluice('messages a --after 2000-01-01T00:00:00Z --before 2000-01-02T00:00:00Z'),
      'No messages.\n',
    )

    const one = await sluice(`messages a ${first.id}`)
    assert.match(one, /^ {2}"big": 9007199254740993$/m)
    assert.match(one, /^good +http\S+ +success +–$/m)
    assert.match(one, /^bad +http\S+ +sending +\d{4}-/m)
    assert.match(await sluice('attempts a e-1'), /^20\S+ \S+Z +\S+ +1 +503 +\d+ +refused/m)
    assert.match(
      await sluice('attempts a e-1 --timings'),
      /TIMINGS \(MS\)\n(?:.*\n)*.*refused.* (connect \d+|reused), first byte \d+$/m,
    )
    assert.match(await sluice('why a e-1 bad'), /its timings +\d+ ms \(.*first byte \d+\)/)
    assert.match(await sluice('attempts a e-1 --headers'), /RESPONSE HEADERS\n(?:.*\n)*.*refused.* content-length: 0$/m)
    const failed = await json<{ msgId: string; responseStatusCode: number }[]>('attempts a --endpoint bad --failed')
    assert.deepEqual(
      failed.map(({ responseStatusCode }) => responseStatusCode),
      [503, 503],
    )
    assert.deepEqual(await json('attempts a --endpoint good --failed'), [])
    assert.match(await sluice('attempts a', 2), /^Name a message or an endpoint: sluice attempts a MESSAGE, /)
  })

  test('tail shows attempts made after it began, each once', async (t) => {
    const { sluice, json, begin, env } = place
    const receiver = await Receiver.listen(t)
    await sluice('app create Tailed --uid tailed')
    await sluice(`endpoint create tailed ${receiver.url}/ --uid here`)
    await json('send tailed old.one {}')
    await receiver.until('the old one', () => receiver.arrivals.length === 1)
    let recorded: unknown[] = []
    while (recorded.length === 0) recorded = await json<unknown[]>('attempts tailed --endpoint here')
    const tail = begin('tail --app tailed --every 100ms', { ...env, NO_COLOR: '1' })
    await tail.says(/Following attempts/)
    const sent = new Set<string>()
    // The first ones may be attempted before it has looked for the first time.
    while (!/tailed\/here/.test(tail.out)) sent.add(String((await json('send tailed new.one {}')).id))
    const last = String((await json('send tailed new.one {}')).id)
    await tail.says(new RegExp(`tailed/here +new\\.one +${last} +200 +\\d+ ms +delivered\n`))
    tail.stop('SIGINT')
    assert.equal(await tail.ended, 0)
    const shown = [...tail.out.matchAll(/ (msg_\w+) /g)].map(([, id]) => id as string)
    assert.equal(new Set(shown).size, shown.length)
    assert.ok(shown.every((id) => sent.has(id) || id === last))
    assert.match(await sluice('tail --endpoint x', 2), /--endpoint needs --app/)
  })

  test('why and lane say what a delivery waits for', async (t) => {
    const { sluice, json } = place
    const receiver = await Receiver.listen(t)
    await sluice('app create W --uid w')
    await sluice(`endpoint create w ${receiver.url}/ --uid one --rate 5 --burst 3`)
    await sluice('endpoint pause w one')
    const { id } = await json('send w a.b {}')
    assert.match(await sluice(`why w ${id} one`), /^paused: The endpoint is paused/)
    assert.match(
      await sluice('lane w one'),
      /^state +paused\ncondition +stopped\nwaiting +1 \(fresh 1, timed 0, replay 0\)\n/,
    )
    assert.match(await sluice('lane w one'), /^rate +5 in 1 s\nburst +3$/m)
    await sluice('endpoint resume w one')
    await receiver.until('the delivery', () => receiver.arrivals.length === 1)
    let why = await json(`why w ${id} one`)
    while (why.reason !== 'delivered') why = await json(`why w ${id} one`)
    assert.match(await sluice(`why w ${id} one`), /^delivered: The receiver answered 200\.\nattempts +1\n/)
    await sluice('why w msg_unknown one', 4)
    await sluice('lane w two', 4)
  })

  test('dead letters are listed, shown, replayed, exported and purged', async (t) => {
    const { sluice, json, directory } = place
    const receiver = await Receiver.listen(t)
    receiver.behave('/', () => ({ status: 500 }))
    await sluice('app create D --uid d')
    await sluice(['endpoint', 'create', 'd', `${receiver.url}/`, '--uid', 'main', '--retry', noRetry])
    const { id } = await json(['send', 'd', 'a.b', '{"n": 1.0}'])
    await json('send d a.c {}')
    let letters: { msgId: string; eventType: string }[] = []
    while (letters.length < 2) letters = await json('dead list d')
    assert.match(
      await sluice('dead list d --event-type a.b'),
      new RegExp(`^just now +${id} +main +exhausted +refused 500$`, 'm'),
    )
    assert.equal((await json<unknown[]>('dead list d --reason gone')).length, 0)
    assert.match(await sluice('dead list d --reason bored', 2), /must be one of exhausted, aged, gone/)
    const shown = await sluice(`dead show d ${id}`)
    assert.match(shown, /^reason +exhausted$/m)
    assert.match(shown, /^ +1 +20\S+ \S+ +500 +\d+ +refused/m)
    assert.equal(await sluice(`dead show d ${id} main`), shown)

    const lines = (await sluice('dead export d')).trimEnd().split('\n')
    assert.equal(lines.length, 2)
    assert.ok(lines.some((line) => line.includes('"payload":{"n": 1.0}') && JSON.parse(line).msgId === id))
    assert.match(
      await sluice('dead export d --event-type a.c --output dead.jsonl'),
      /^1 dead letter written to dead\.jsonl\.\n$/,
    )
    assert.equal(JSON.parse(readFileSync(join(directory, 'dead.jsonl'), 'utf8')).eventType, 'a.c')
    assert.match(await sluice('dead export d --output no/such/place', 1), /^Cannot write no\/such\/place: ENOENT\.\n$/)

    assert.match(await sluice('dead replay d', 2), /^Which ones\?/)
    receiver.behave('/', () => ({ status: 200 }))
    assert.equal(await sluice(`dead replay d ${id}`), '1 dead letter replayed.\n')
    await receiver.until('the replay', () => receiver.arrivals.length === 3)
    assert.equal(receiver.arrivals.at(-1)?.body.toString(), '{"n": 1.0}')
    assert.equal((await json('dead replay d --event-type none --no-wait')).task, 'dead.replay')
    assert.equal(await sluice('dead purge d --all'), '1 dead letter purged.\n')
    assert.equal(await sluice('dead list d'), 'No dead letters.\n')
    await sluice(`dead show d ${id}`, 4)
  })
})

test('progress is a bar when the share is known', () => {
  assert.equal(progressLine('Exporting', 1200, 0.5), `Exporting ${'█'.repeat(12)}${'░'.repeat(12)}  50 %  1,200`)
  assert.equal(progressLine('Replaying', 7), 'Replaying 7')
})
