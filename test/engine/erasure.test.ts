import assert from 'node:assert/strict'
import { StatementSync } from 'node:sqlite'
import { describe, type TestContext, test } from 'node:test'
import { replay } from '../../src/domain/delivery.ts'
import { encodeId, keyTime } from '../../src/domain/ids.ts'
import { TaskRunner } from '../../src/engine/worker-jobs.ts'
import type { Application } from '../../src/features/applications/noun.ts'
import { isSigned, type Signature } from '../../src/features/audit/store.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { type ErasureReport, erasureAction, type SubjectErasure } from '../../src/features/erasure/rules.ts'
import type { Task } from '../../src/features/tasks/rules.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { SubjectIndex } from '../../src/shaping/subjects.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { begin, type Open, type World } from '../store/conformance/harness.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'

const all = { after: 0, until: Number.MAX_SAFE_INTEGER, limit: 1000 }
const anyRow = { actor: null, action: erasureAction, app: null, since: null, until: null }

/** An application with pointers, and the means to publish about persons. */
class Scene {
  readonly world: World
  readonly store: Store
  readonly app: Application
  readonly endpoint: Endpoint

  private constructor(world: World, app: Application, endpoint: Endpoint) {
    this.world = world
    this.store = world.store
    this.app = app
    this.endpoint = endpoint
  }

  static async open(t: TestContext, open: Open, pointers: string[] | null = ['/user/id', '/mail']): Promise<Scene> {
    const world = await begin(t, open)
    const app = await world.store.createApplication({
      name: 'Acme',
      uid: null,
      throttleRate: null,
      metadata: {},
      settings: pointers === null ? {} : { subjectPointers: pointers },
    })
    return new Scene(world, app, await world.endpoint(app))
  }

  async index(): Promise<SubjectIndex> {
    const indexing = await this.store.findSubjectIndex(this.app.key)
    assert(indexing !== undefined)
    return new SubjectIndex(indexing)
  }

  /** Publishes about a person, indexed unless `subjects` says otherwise. */
  async publish(person: string, change: Parameters<World['publish']>[1] = {}, endpoints = [this.endpoint]) {
    const hash = (await this.store.findSubjectIndex(this.app.key)) && (await this.index()).hashOf(person)
    const body = Buffer.from(`{"user":{"id":"${person}"},"n":1.0}`)
    return this.world.publish(endpoints, { body, ...(hash && { subjects: [hash] }), ...change })
  }

  async input(person: string, waiting: SubjectErasure['waiting'] = 'cancel'): Promise<SubjectErasure> {
    const hash = (await this.index()).hashOf(person) as string
    return { hash, waiting, requestedBy: 'key_1', address: '127.0.0.1' }
  }

  async start(person: string, waiting: SubjectErasure['waiting'] = 'cancel'): Promise<string> {
    const work = { type: 'subject.erase', input: await this.input(person, waiting) } as const
    return (await this.store.createTask({ app: this.app.key, work, data: {} })).id
  }

  async erase(person: string, waiting: SubjectErasure['waiting'] = 'cancel'): Promise<ErasureReport> {
    const id = await this.start(person, waiting)
    await this.runAll()
    return this.report(id)
  }

  /** Runs all tasks to their end, also when the store makes trouble at a step. */
  async runAll(store = this.store): Promise<void> {
    for (;;) {
      const runner = new TaskRunner(store, systemClock)
      try {
        while (await runner.step());
      } catch (error) {
        if (!(error instanceof StoreTrouble)) throw error
        await this.world.harness.sql('update task set lease_until = 0')
        continue
      }
      const left = await this.store.listTasks({ after: null, order: 'ascending', limit: 100 })
      if (left.every(({ status }) => status !== 'running')) return
      await this.world.pass(250)
    }
  }

  async report(id: string): Promise<ErasureReport> {
    const task = (await this.store.findTask(id)) as Task
    assert.equal(task.status, 'finished', JSON.stringify(task.data))
    const { report, signature } = task.data as { report: ErasureReport; signature: Signature }
    assert.equal(isSigned('erasure', JSON.stringify(report), signature), true)
    assert.equal(report.task, id)
    return report
  }

  async message(id: string) {
    const message = await this.store.findMessage(this.app.key, id)
    assert(message !== undefined)
    return message
  }

  async body(id: string): Promise<string> {
    return Buffer.from((await this.message(id)).body).toString()
  }
}

const nothing = { messages: 0, rewritten: 0, cancelled: 0, without: 0, attempts: 0, deadLetters: 0, samples: 0 }

function erasing(open: Open): void {
  test('the messages of a person are erased with their answers, and those of others stay', async (t) => {
    const s = await Scene.open(t, open)
    const { store, world, endpoint } = s
    const worker = await world.join()
    const dead = await s.publish('ann')
    const delivered = await s.publish('ann')
    await world.claim(worker)
    for (const row of await world.rows(endpoint)) {
      const isDead = row.message === dead.key
      const verdict = isDead ? ({ state: 'dead', reason: 'exhausted' } as const) : ({ state: 'delivered' } as const)
      const settlement = world.settlement(endpoint, row, verdict)
      const attempt = {
        ...settlement.attempt,
        error: 'ann',
        response: Buffer.from('ann'),
        responseHeaders: '{"x":"ann"}',
      }
      await world.settle(worker, { ...settlement, attempt })
    }
    const waiting = await s.publish('ann', {
      eventId: 'ann-1',
      tags: ['ann'],
      headers: { x: 'ann' },
      orderingKey: 'ann',
    })
    const other = await s.publish('bob')
    const report = await s.erase('ann')

    assert.deepEqual(report.erased, { ...nothing, messages: 3, cancelled: 1, attempts: 2, deadLetters: 1 })
    assert.deepEqual([report.waiting, report.app, report.requestedBy], ['cancel', s.app.id, 'key_1'])
    assert.ok((report.oldest as string) <= (report.newest as string))
    assert.ok((report.newest as string) <= new Date(Date.parse(report.until) + 1000).toISOString())
    for (const { id } of [dead, delivered, waiting]) {
      const message = await s.message(id)
      assert.deepEqual(
        [message.body.length, message.expunged, message.eraseReason, message.eventId, message.tags, message.headers],
        [0, true, 'subject', null, null, null],
      )
    }
    for (const { key } of [dead, delivered]) {
      const [attempt] = await store.attemptsOf(key)
      assert.deepEqual([attempt?.error, attempt?.responseHeaders], [null, null])
      assert.equal(Buffer.from(attempt?.response ?? []).toString(), 'EXPUNGED')
    }
    assert.equal((await store.findDead(endpoint.key, dead.key))?.error, null)
    assert.equal((await world.rows(endpoint)).length, 1)
    assert.match(await s.body(other.id), /bob/)
    assert.deepEqual(await store.listSubjectMessages(s.app.key, (await s.input('ann')).hash, all), [])
    // The event id is free again: it may have named the person.
    assert.equal(await store.findMessage(s.app.key, 'ann-1'), undefined)

    const { items } = await store.listAudit({ limit: 10, order: 'ascending', after: null }, anyRow)
    assert.deepEqual(
      items.map(({ actor, app, target }) => [actor, app, target]),
      [['key_1', s.app.id, report.task]],
    )
    assert.deepEqual(JSON.parse(items[0]?.after ?? '').report, report)
    assert.doesNotMatch(JSON.stringify(items), /\bann\b/)
    const again = await s.erase('ann')
    assert.deepEqual([again.erased, again.oldest], [nothing, null])
  })

  test('messages from before the pointers were set are found by their payloads', async (t) => {
    const s = await Scene.open(t, open, null)
    const ids: string[] = []
    for (let i = 0; i < 130; i++) ids.push((await s.publish(i % 2 === 0 ? 'ann' : 'bob')).id)
    const raw = await s.publish('ann', { body: Buffer.from('ann'), contentType: 'text/plain' })
    await s.store.updateApplication(s.app.key, { settings: { subjectPointers: ['/user/id'] } })
    const late = await s.publish('ann')
    const report = await s.erase('ann')
    assert.equal(report.erased.messages, 66)
    assert.equal((await s.message(late.id)).expunged, true)
    for (const [i, id] of ids.entries()) assert.equal((await s.message(id)).expunged, i % 2 === 0)
    assert.equal((await s.message(raw.id)).expunged, false, 'a payload that is not JSON has no pointers')
  })

  test('messages that are marked to be read are read', async (t) => {
    const s = await Scene.open(t, open)
    const meant = await s.publish('ann', { subjects: [''] })
    const other = await s.publish('bob', { subjects: [''] })
    const report = await s.erase('ann')
    assert.equal(report.erased.messages, 1)
    assert.equal((await s.message(meant.id)).expunged, true)
    assert.equal((await s.message(other.id)).expunged, false)
  })

  test('what waits is delivered without the person, in every form, and the rest is erased', async (t) => {
    const s = await Scene.open(t, open)
    const { store, world } = s
    const shaped = await world.endpoint(s.app, {
      flow: { shape: { keep: null, drop: ['/n'], rename: {}, pseudonymize: [] } },
    })
    const variants = [{ body: Buffer.from('{"user":{"id":"ann"}}'), signature: null }]
    const special = [{ endpoint: shaped.key, variant: 0 }]
    const waiting = await s.publish('ann', { special, variants, tags: ['ann'] }, [s.endpoint, shaped])
    const worker = await world.join()
    const ended = await s.publish('ann')
    await world.claim(worker, 2)
    const row = (await world.rows(s.endpoint)).find(({ message }) => message === ended.key)
    assert(row !== undefined)
    await world.settle(worker, world.settlement(s.endpoint, row, { state: 'delivered' }))

    const report = await s.erase('ann', 'deliver-without')
    assert.deepEqual(report.erased, { ...nothing, messages: 1, rewritten: 1, without: 2 })
    assert.equal((await s.message(ended.id)).expunged, true)
    assert.equal(await s.body(waiting.id), '{"user":{"id":"[erased]"},"n":1.0}')
    const [variant] = await store.loadVariants([{ message: waiting.key, variant: 0 }])
    assert.equal(Buffer.from(variant?.body ?? []).toString(), '{"user":{"id":"[erased]"}}')
    const message = await s.message(waiting.id)
    assert.deepEqual([message.tags, message.expunged], [null, false])
    for (const each of [s.endpoint, shaped]) {
      const [due] = await world.rows(each)
      assert.equal(due?.message, waiting.key)
    }
    // It names no one any more.
    const hash = (await s.input('ann')).hash
    assert.deepEqual(await store.listSubjectMessages(s.app.key, hash, all), [])
  })

  test('an answer that comes while its delivery is rewritten is erased before the report', async (t) => {
    const s = await Scene.open(t, open)
    const { world, store } = s
    const worker = await world.join()
    const { key } = await s.publish('ann')
    await world.claim(worker)
    const row = await world.head(s.endpoint)
    const id = await s.start('ann', 'deliver-without')
    const runner = new TaskRunner(store, systemClock)
    await runner.step()
    // The attempt was under way; its worker has not heard of the erasure.
    const settlement = world.settlement(s.endpoint, row, { state: 'waiting', waitMs: 3_600_000 })
    await world.settle(worker, { ...settlement, attempt: { ...settlement.attempt, error: 'ann' } })
    assert.equal((await store.attemptsOf(key))[0]?.error, 'ann')
    await runner.release()
    await s.runAll()
    const { erased } = await s.report(id)
    assert.deepEqual(erased, { ...nothing, rewritten: 1, without: 1, attempts: 1 })
    assert.equal((await store.attemptsOf(key))[0]?.error, null)
  })

  test('a replay under way neither sends an erased message nor brings it back', async (t) => {
    const s = await Scene.open(t, open)
    const { world, store } = s
    const worker = await world.join()
    const { key } = await s.publish('ann')
    await world.claim(worker)
    const row = await world.head(s.endpoint)
    await world.settle(worker, world.settlement(s.endpoint, row, { state: 'dead', reason: 'exhausted' }))
    const delivery = { endpoint: s.endpoint.key, message: key }
    assert.equal((await store.replay([delivery])).length, 1)
    const report = await s.erase('ann')
    assert.equal(report.erased.cancelled, 1)
    assert.deepEqual(await world.rows(s.endpoint, replay), [])
    assert.deepEqual(await store.replay([delivery]), [])
  })

  test('a replay that begins while its message is found to have ended is delivered without the person', async (t) => {
    const s = await Scene.open(t, open)
    const { world, store } = s
    const worker = await world.join()
    const { key, id } = await s.publish('ann')
    await world.claim(worker)
    const row = await world.head(s.endpoint)
    await world.settle(worker, world.settlement(s.endpoint, row, { state: 'dead', reason: 'exhausted' }))
    const racing = new Proxy(store, {
      get(target, name: keyof Store) {
        if (name !== 'waitingAmong') return target[name]
        return async (messages: readonly number[]) => {
          const waiting = await target.waitingAmong(messages)
          await target.replay([{ endpoint: s.endpoint.key, message: key }])
          return waiting
        }
      },
    })
    const task = await s.start('ann', 'deliver-without')
    await s.runAll(racing)
    assert.deepEqual((await s.report(task)).erased, { ...nothing, rewritten: 1, without: 1, attempts: 1 })
    assert.equal(await s.body(id), '{"user":{"id":"[erased]"},"n":1.0}')
    assert.equal((await world.rows(s.endpoint, replay)).length, 1)
  })

  test('messages that are delayed or gave way to others are erased, whatever waits beside them', async (t) => {
    const s = await Scene.open(t, open)
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push((await s.publish('ann', { delayMs: 3_600_000 + i })).id)
    for (let i = 0; i < 5; i++) await s.publish('bob', { delayMs: 3_600_000 + i })
    assert.deepEqual((await s.erase('ann')).erased, { ...nothing, messages: 5, cancelled: 5 })
    assert.equal((await s.store.counts()).pending, 5)
    for (const id of ids) assert.equal((await s.message(id)).expunged, true)
  })

  test('a message for many endpoints is erased in several steps, all of it', async (t) => {
    const s = await Scene.open(t, open)
    const { world, store } = s
    const many: Endpoint[] = []
    for (let i = 0; i < 1101; i++) many.push(await world.endpoint(s.app))
    for (const waiting of ['cancel', 'deliver-without'] as const) {
      const { id } = await s.publish('ann', {}, many)
      while ((await store.expand(500)).more);
      const report = await s.erase('ann', waiting)
      const expected = waiting === 'cancel' ? { messages: 1, cancelled: 1101 } : { rewritten: 1, without: 1101 }
      assert.deepEqual(report.erased, { ...nothing, ...expected })
      assert.equal((await store.counts()).pending, waiting === 'cancel' ? 0 : 1101)
      assert.equal((await s.message(id)).expunged, waiting === 'cancel')
    }
  })

  test('two erasures of one person at once both end, and together erase everything once', async (t) => {
    for (const waiting of ['cancel', 'deliver-without'] as const) {
      const s = await Scene.open(t, open)
      for (let i = 0; i < 45; i++) await s.publish('ann')
      const ids = [await s.start('ann', waiting), await s.start('ann', waiting)]
      await Promise.all([s.runAll(), s.runAll()])
      const reports = await Promise.all(ids.map((id) => s.report(id)))
      const sum = reports.reduce((all, { erased }) => all + erased.messages + erased.rewritten, 0)
      assert.equal(sum, 45)
      assert.deepEqual(await s.store.listSubjectMessages(s.app.key, (await s.input('ann')).hash, all), [])
    }
  })

  test('a schedule that names the person is reported and stays', async (t) => {
    const s = await Scene.open(t, open)
    const plain = {
      cron: '0 7 * * *',
      timezone: 'UTC',
      eventType: 'x',
      contentType: 'application/json',
      headers: null,
      channels: null,
      tags: null,
      endpoint: null,
      missed: 'skip',
      missedLimit: 1,
      paused: false,
      metadata: {},
    } as const
    const schedule = (uid: string, person: string) =>
      s.store.createSchedule(s.app.key, { ...plain, uid, body: Buffer.from(`{"mail":"${person}"}`) })
    const { id } = await schedule('a', 'ann')
    await schedule('b', 'bob')
    assert.deepEqual((await s.erase('ann')).left.schedules, [id])
  })

  test('samples of refused arrivals at sources of the application are deleted', async (t) => {
    const s = await Scene.open(t, open)
    const other = await s.world.application()
    const no = open === openPostgresHarness ? 'false' : '0'
    for (const [key, app] of [
      [1, s.app.key],
      [2, other.key],
    ]) {
      await s.world.harness.sql(`
        insert into source (key, id, app, name, provider, settings, secrets, tokens, disabled, metadata, owns_app,
                            created_at, updated_at)
        values (${key}, 'src_${key}', ${app}, 's', 'github', '{}', '[]', '[]', ${no}, '{}', ${no}, 0, 0)`)
      await s.world.harness.sql(
        `
        insert into source_sample (source, slot, at, code, reason, method, query, address, headers, body, unsampled)
        values (${key}, 0, 0, 'c', 'r', 'POST', '', '', '{}', '', 0)`.replace(
          `'{}', '',`,
          open === openPostgresHarness ? `'{}', '',` : `'{}', x'',`,
        ),
      )
    }
    assert.equal((await s.erase('ann')).erased.samples, 1)
    assert.equal((await s.erase('ann')).erased.samples, 0)
  })

  test('a dead letter that a dead-letter file may hold is reported, and one that died before the file is not', async (t) => {
    const s = await Scene.open(t, open)
    const { world, store } = s
    await store.beginDeadFile(null)
    const worker = await world.join()
    const messages = [await s.publish('ann'), await s.publish('ann'), await s.publish('ann')]
    await world.claim(worker)
    for (const row of await world.rows(s.endpoint)) {
      await world.settle(worker, world.settlement(s.endpoint, row, { state: 'dead', reason: 'exhausted' }))
    }
    // One died before the file began; one is in it; one waits for it.
    for (const [i, { key }] of messages.entries()) {
      await world.harness.sql(`update dead set died_at = ${i * 10} where message = ${key}`)
    }
    await world.harness.sql('update dead_file set began_at = 5, died_at = 10')
    const { left, erased } = await s.erase('ann')
    assert.equal(erased.deadLetters, 3)
    assert.deepEqual(left.deadLetterFile, { lines: 1, messages: [messages[1]?.id] })
  })

  test('a message that came with an imported dead letter is found and erased', async (t) => {
    const s = await Scene.open(t, open)
    // Messages with earlier keys are read in any case.
    await s.world.harness.sql('update subject_key set since = 0')
    const key = (await s.publish('bob')).key - 1
    const id = encodeId('msg', key, (length) => 'x'.repeat(length))
    const none = {
      eventId: null,
      channels: null,
      tags: null,
      endpoint: null,
      headers: null,
      deliverAt: null,
      expiresAt: null,
    }
    const message = { key, id, eventType: 'x', contentType: 'application/json', orderingKey: null, ...none }
    const answer = { status: 500, code: 'refused', error: 'ann', response: Buffer.from('ann') } as const
    const letter = {
      endpoint: s.endpoint.key,
      reason: 'exhausted',
      attempts: 1,
      diedAt: keyTime(key),
      ...answer,
    } as const
    const body = Buffer.from('{"user":{"id":"ann"}}')
    const imported = await s.store.importDead(s.app.key, [{ ...letter, message, body, orderKey: null, variant: null }])
    assert.deepEqual(imported, ['imported'])
    assert.match(await s.body(id), /ann/)
    const { erased } = await s.erase('ann')
    assert.deepEqual(erased, { ...nothing, messages: 1, deadLetters: 1 })
    assert.equal(await s.body(id), '')
    assert.equal((await s.store.findDead(s.endpoint.key, key))?.error, null)
  })

  test('killed at any call of the store, an erasure ends with the same result', async (t) => {
    for (const waiting of ['cancel', 'deliver-without'] as const) {
      let calls = 0
      // On Postgres each world takes seconds.
      const stride = open === openPostgresHarness ? 9 : 1
      for (let killAt = 1; killAt <= Math.max(1, calls); killAt += stride) {
        const s = await Scene.open(t, open)
        const ids: string[] = []
        for (let i = 0; i < 5; i++) ids.push((await s.publish('ann')).id)
        const id = await s.start('ann', waiting)
        let made = 0
        // Each call fails once: before it did anything, or, every other time, after it did all.
        const dying = new Proxy(s.store, {
          get(target, name: keyof Store) {
            const method = target[name] as (...args: unknown[]) => Promise<unknown>
            if (typeof method !== 'function' || name === 'scrubErased') return method
            return async (...args: unknown[]) => {
              const isIt = ++made === killAt
              if (isIt && killAt % 2 === 0) throw new StoreTrouble('killed before')
              const answer = await method.apply(target, args)
              if (isIt) throw new StoreTrouble('killed after')
              return answer
            }
          },
        })
        await s.runAll(dying)
        calls = Math.max(calls, made)
        const { erased } = await s.report(id)
        const expected = waiting === 'cancel' ? { messages: 5, cancelled: 5 } : { rewritten: 5, without: 5 }
        assert.deepEqual(erased, { ...nothing, ...expected }, `killed at call ${killAt}`)
        const { items } = await s.store.listAudit({ limit: 10, order: 'ascending', after: null }, anyRow)
        assert.equal(items.length, 1, `one report, killed at call ${killAt}`)
        for (const each of ids) assert.doesNotMatch(await s.body(each), /ann/)
      }
      assert.ok(calls > 10)
    }
  })
}

test('a step erases fifty messages with as many statements as five', async (t) => {
  const statements: number[] = []
  const { all: run } = StatementSync.prototype
  t.after(() => {
    StatementSync.prototype.all = run
  })
  for (const messages of [5, 50]) {
    const s = await Scene.open(t, openSqliteHarness)
    for (let i = 0; i < messages; i++) await s.publish('ann', { eventId: `e${i}` })
    await s.world.harness.sql('update subject_key set since = 0')
    await s.start('ann')
    const runner = new TaskRunner(s.store, systemClock)
    let count = 0
    StatementSync.prototype.all = function (this: StatementSync, ...values: Parameters<typeof run>) {
      count++
      return run.apply(this, values)
    } as typeof run
    // The first step finds that no message is older than the pointers.
    await runner.step()
    await runner.step()
    StatementSync.prototype.all = run
    await runner.release()
    assert.equal((await s.store.counts()).pending, 0)
    statements.push(count)
  }
  assert.equal(statements[1], statements[0])
  assert.ok((statements[1] as number) < 40, `${statements[1]} statements`)
})

describe('erasing a data subject on sqlite', () => erasing(openSqliteHarness))
describe('erasing a data subject on postgres', () => erasing(openPostgresHarness))
