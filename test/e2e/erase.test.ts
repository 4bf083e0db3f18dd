import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { dialects } from '../attack/attack.ts'
import { atEnd } from './at-end.ts'
import { eventually } from './eventually.ts'
import { openPlace, type Place } from './place.ts'
import { apiKey, Program } from './program.ts'
import { around, filesOf, relationFilesOf, rowsOf, statisticsOf } from './search.ts'
import { startHere } from './server-here.ts'

const person = 'canary.ann@example.com'
const echo = 'parrot.ann@example.com'
/** Short payloads lie in the pages of tables, long ones in pages of their own. */
const lengths = [20, 300, 1500, 9000]

interface Receiver {
  readonly url: string
  readonly held: (() => void)[]
  readonly got: { readonly path: string; readonly body: string; readonly id: string }[]
  status: number
}

/** Answers with the payload that it was sent, a parrot for each canary; at /held it answers when the test lets it. */
async function listen(t: TestContext): Promise<Receiver> {
  const receiver: Receiver = { url: '', held: [], got: [], status: 500 }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    receiver.got.push({ path: request.url ?? '', body, id: String(request.headers['webhook-id']) })
    if (request.url === '/held') await new Promise<void>((resolve) => receiver.held.push(resolve))
    response.writeHead(receiver.status, { 'x-echo': body.includes(person) ? echo : 'nothing' })
    response.end(body.replaceAll('canary', 'parrot'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  return Object.assign(receiver, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
}

const hexOrText = new RegExp(
  `canary|parrot|${['canary', 'parrot'].map((word) => Buffer.from(word).toString('hex')).join('|')}`,
)

/** The planner's sample is free of the person, and so is every file of the database after the commands of docs/erasure.md. */
async function assertGoneFromPostgres(t: TestContext, place: Place): Promise<void> {
  await eventually('the sample was taken again', async () => !hexOrText.test(await statisticsOf(place)))
  await place.query('checkpoint')
  const before = await relationFilesOf(place)
  if (before === undefined) return t.diagnostic('the files of the server cannot be read from here')
  assert.match(before, /canary/, 'the pages of tables keep old versions of rows, which the search finds')
  const page = readFileSync('docs/erasure.md', 'utf8')
  const [, commands = ''] = /```sql\n([^`]*)```/.exec(page) ?? []
  assert.match(commands, /vacuum full/)
  let left: string | undefined
  await eventually('the commands remove the person', async () => {
    for (const command of commands.split(';')) if (command.trim() !== '') await place.query(command)
    left = around(/canary|parrot/, (await relationFilesOf(place)) as string)
    // A transaction of the server that is open meanwhile keeps old rows: the page says that the commands are to be repeated.
    return left === undefined
  }).catch((error) => assert.fail(`${error.message}; left: ${left}`))
}

interface Open {
  readonly place: Place
  readonly server: Program
}

/** An application of its own on the server, with a receiver, and ways to ask about both. */
async function begin(t: TestContext, { place, server }: Open, app: string) {
  const receiver = await listen(t)
  const ask = server.ask.bind(server)
  await ask('POST', '/app', { name: 'A', uid: app, subjectPointers: ['/user/mail'] })
  const publish = async (mail: string, length = 20) => {
    const payload = { user: { mail }, text: 'x'.repeat(length) }
    const about = mail.replaceAll(/[^a-z]/g, '-')
    const more = { eventId: `${about}-${length}`, tags: [about], channels: [about], headers: { 'x-about': about } }
    return (await ask('POST', `/app/${app}/msg`, { eventType: 'x', payload, orderingKey: about, ...more })).id as string
  }
  const ended = async (id: string) => {
    let erasure: Record<string, never> | undefined
    await eventually('the erasure ends', async () => {
      erasure = await ask('GET', `/app/${app}/erasure/${id}`)
      return erasure?.state !== 'running'
    })
    assert.equal(erasure?.state, 'finished', JSON.stringify(erasure))
    // biome-ignore lint/suspicious/noExplicitAny: an answer is any JSON.
    return erasure as any
  }
  return { place, receiver, server, ask, publish, ended }
}

for (const dialect of dialects) {
  test(`erasing a person on ${dialect}`, async (t) => {
    const place = await openPlace(t, dialect)
    const opened = { place, server: await Program.start(t, 'serve', place.store) }
    await t.test(
      'nothing of the person is left in the database or in its files, wherever a receiver echoed it',
      async (each) => {
        const { receiver, ask, publish, ended } = await begin(each, opened, 'gone')
        const retry = { waits: { kind: 'list', ms: [0, 1] } }
        await ask('POST', '/app/gone/endpoint', { uid: 'echo', url: `${receiver.url}/echo`, retry })
        await ask('POST', '/app/gone/endpoint', {
          uid: 'shaped',
          url: `${receiver.url}/echo`,
          order: 'key',
          shape: { drop: ['/text'] },
          signature: 'stored',
          retry,
        })
        const long = { waits: { kind: 'list', ms: [3_600_000] } }
        await ask('POST', '/app/gone/endpoint', { uid: 'held', url: `${receiver.url}/held`, retry: long })
        for (const length of lengths) await publish(person, length)
        const other = await publish('bob@example.com')
        const count = lengths.length + 1
        await eventually('all but those held are dead letters', async () => {
          const [row] = await place.query('select count(*) as n from dead')
          return Number(row?.n) === 2 * count && receiver.held.length === count
        })
        assert.match(await rowsOf(place), /canary/, 'the search finds the person while it is there')
        assert.match(await rowsOf(place), /parrot/)
        if (dialect === 'postgres') {
          // As the server does by itself, when enough rows have changed.
          await place.query('analyze')
          assert.match(await statisticsOf(place), hexOrText, 'the planner keeps a sample of payloads')
        }

        const lines = String(await ask('POST', '/app/gone/subject/export', { subject: person }))
          .trim()
          .split('\n')
        const types = lines.map((line) => JSON.parse(line)).map(({ type }) => type)
        assert.equal(types.filter((type) => type === 'message').length, lengths.length)
        assert.equal(types.filter((type) => type === 'dead_letter').length, 2 * lengths.length)
        assert.ok(types.filter((type) => type === 'attempt').length >= 4 * lengths.length)
        assert.equal(types.at(-1), 'end')
        assert.doesNotMatch(lines.join(), /bob@/)

        const { id } = await ask('POST', '/app/gone/subject/erase', { subject: person })
        const { report } = await ended(id)
        assert.equal(report.erased.messages, lengths.length)
        // Attempts that were under way end now, and their receiver echoes the payload.
        for (const release of receiver.held) release()
        await eventually('the attempts under way are recorded', async () => {
          const { data } = await ask('GET', '/app/gone/attempt/endpoint/held')
          return data.length === count
        })
        assert.equal(around(/canary|parrot/, await rowsOf(place)), undefined)
        await eventually('the file and its log are wiped', () => !/canary/.test(filesOf(place)))
        const bob = await ask('GET', `/app/gone/msg/${other}`)
        assert.equal(bob.payload.user.mail, 'bob@example.com')
        if (dialect === 'postgres') await assertGoneFromPostgres(each, place)
      },
    )

    await t.test(
      'deliveries that wait go out without the person, the same bytes each time, and in flight is in flight',
      async (each) => {
        const { receiver, ask, publish, ended } = await begin(each, opened, 'waiting')
        const retry = { waits: { kind: 'list', ms: [1, 1, 1] } }
        await ask('POST', '/app/waiting/endpoint', { uid: 'paused', url: `${receiver.url}/paused`, retry })
        await ask('POST', '/app/waiting/endpoint/paused/pause')
        await ask('POST', '/app/waiting/endpoint', { uid: 'held', url: `${receiver.url}/held`, retry })
        const message = await publish(person)
        await eventually('one attempt is under way', () => receiver.held.length === 1)
        const { id } = await ask('POST', '/app/waiting/subject/erase', { subject: person, waiting: 'deliver-without' })
        const { report } = await ended(id)
        assert.deepEqual([report.erased.rewritten, report.erased.without], [1, 2])

        receiver.held[0]?.()
        await ask('POST', '/app/waiting/endpoint/paused/resume')
        const gotAt = (path: string) => receiver.got.filter((each) => each.path === path).map(({ body }) => body)
        await eventually('the paused endpoint got all its attempts', () => gotAt('/paused').length === 4)
        await eventually('the held endpoint gets its retry', () => {
          for (const release of receiver.held.slice(1)) release()
          return gotAt('/held').length === 4
        })
        const [inFlight, ...later] = gotAt('/held')
        assert.match(inFlight ?? '', /canary/, 'what was on the socket is out')
        for (const body of [...later, ...gotAt('/paused')]) {
          assert.equal(body, `{"user":{"mail":"[erased]"},"text":"${'x'.repeat(20)}"}`)
        }
        assert.deepEqual(new Set(receiver.got.map(({ id }) => id)), new Set([message]), 'each carries the same id')
        await eventually('both are dead letters', async () => (await ask('GET', '/app/waiting/dead')).data.length === 2)
        assert.equal(around(/canary|parrot/, await rowsOf(place)), undefined)
      },
    )

    await t.test('an erasure goes on where it was when its server is killed', async (each) => {
      const { receiver, server, ask, publish } = await begin(each, opened, 'killed')
      await ask('POST', '/app/killed/endpoint', { uid: 'paused', url: `${receiver.url}/paused` })
      await ask('POST', '/app/killed/endpoint/paused/pause')
      for (let i = 0; i < 60; i++) await publish(person, i)
      const { id } = await ask('POST', '/app/killed/subject/erase', { subject: person })
      await eventually('it has begun', async () => {
        const [row] = await place.query('select count(*) as n from message where expunged_at is not null')
        return Number(row?.n) > 0
      })
      await server.kill()
      const next = await startHere(t, 'serve', place.store)
      await eventually('the erasure ends', async () => {
        const [row] = await place.query(`select status from task where id = '${id}'`)
        return row?.status === 'finished'
      })
      const answer = await fetch(`${next.api}/app/killed/erasure/${id}`, {
        headers: { authorization: `Bearer ${apiKey}` },
      })
      const { report } = (await answer.json()) as { report: { erased: object } }
      const erased = { messages: 60, rewritten: 0, cancelled: 60, without: 0, attempts: 0, deadLetters: 0, samples: 0 }
      assert.deepEqual(report.erased, erased, 'each message is counted once')
      assert.equal(around(/canary/, await rowsOf(place)), undefined)
      await eventually('the file and its log are wiped', () => !/canary/.test(filesOf(place)))
      next.terminate()
      await next.exited
      assert.equal(around(/canary/, filesOf(place)), undefined)
    })
  })
}
