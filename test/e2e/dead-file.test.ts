import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { atEnd } from './at-end.ts'
import { eventually } from './eventually.ts'
import { openPlace, type Place } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

const batch = 50

/** A store and a folder for the dead-letter file, with an endpoint whose deliveries die at their first attempt. */
class Scene {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-dead-'))
  readonly file = join(this.folder, 'dead.jsonl')
  readonly settings = { SLUICE_DEAD_FILE: this.file, SLUICE_DEAD_FILE_SIZE: '16KiB' }
  readonly place: Place
  published = 0
  kills = 0

  private constructor(place: Place) {
    this.place = place
  }

  static async open(t: TestContext, dialect: 'sqlite' | 'postgres'): Promise<Scene> {
    const scene = new Scene(await openPlace(t, dialect))
    atEnd(t, () => rmSync(scene.folder, { recursive: true }))
    return scene
  }

  async prepare(t: TestContext, server: Program): Promise<void> {
    const receiver = await Receiver.listen(t)
    // It says nothing of the receiver's health, whose circuit stays closed.
    receiver.behave('/hook', () => ({ status: 400 }))
    await ask(server, '/app', { name: 'acme', uid: 'acme' })
    const retry = { waits: { kind: 'list', ms: [] }, jitter: 'none', maxAgeMs: 3_600_000 }
    await ask(server, '/app/acme/endpoint', { url: `${receiver.url}/hook`, uid: 'main', retry })
  }

  async publish(server: Program): Promise<void> {
    const messages = Array.from({ length: batch }, (_, i) => ({ eventType: 'x', payload: { i } }))
    await ask(server, '/app/acme/msg/batch', { messages })
    this.published += batch
  }

  get files(): string[] {
    return readdirSync(this.folder).filter((name) => /^dead\.jsonl(\.\d+)?$/.test(name))
  }

  get bytes(): number {
    return this.files.reduce(
      (sum, name) => sum + (statSync(join(this.folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    )
  }

  get lines(): string[] {
    return this.files.flatMap((name) => readFileSync(join(this.folder, name), 'utf8').split('\n').slice(0, -1))
  }

  /** Waits until every delivery has died and is in the files, and answers how many lines are there more than once. */
  async assertComplete(): Promise<number> {
    await eventually('every delivery is dead', async () => {
      const [row] = await this.place.query('select count(*) as dead from dead')
      return Number(row?.dead) === this.published
    })
    const rows = await this.place.query('select message.id from dead join message on message.key = dead.message')
    const died = new Set(rows.map(({ id }) => String(id)))
    await eventually('every dead letter is in the files', () => {
      const filed = new Set(this.filed)
      return [...died].every((id) => filed.has(id))
    })
    const { filed } = this
    assert.deepEqual([...new Set(filed)].toSorted(), [...died].toSorted())
    for (const name of this.files) assert(readFileSync(join(this.folder, name), 'utf8').endsWith('\n'), name)
    return filed.length - died.size
  }

  /** The ids of the messages of all lines. A kill may leave half a line, which is ended by a line break. */
  get filed(): string[] {
    const whole = this.lines.filter((line) => line.endsWith('}'))
    assert.ok(this.lines.length - whole.length <= this.kills, 'a line is torn that no kill tore')
    return whole.map((line) => JSON.parse(line).msgId as string)
  }
}

async function ask<T>(server: Program, path: string, body: unknown, type = 'application/json'): Promise<T> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': type }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(`${server.api}${path}`, { method: 'POST', headers, body: text })
  const answer = await response.text()
  assert.ok(response.ok, `${path}: ${response.status} ${answer}`)
  return JSON.parse(answer) as T
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`the dead-letter file of a store on ${dialect}`, async (t) => {
    const scene = await Scene.open(t, dialect)
    let server = await Program.start(t, 'serve', scene.place.store, scene.settings)
    await scene.prepare(t, server)

    await t.test('holds each letter although the program is killed again and again', async () => {
      for (const _ of dialect === 'sqlite' ? [1, 2, 3] : [1]) {
        const before = scene.bytes
        await scene.publish(server)
        // The kill comes when lines have just been written: before or after the store knows of them.
        await eventually('lines are written', () => scene.bytes > before)
        await server.kill()
        scene.kills++
        server = await Program.start(t, 'serve', scene.place.store, scene.settings)
      }
      await scene.publish(server)
      const repeated = await scene.assertComplete()
      assert.ok(repeated <= scene.kills * batch, `${repeated} lines are there more than once`)
      assert(scene.files.length > 1, 'a full file got its number')

      const imported = await ask(server, '/app/acme/dead/import', scene.lines[0] ?? '', 'application/jsonl')
      assert.deepEqual(imported, { checked: 1, imported: 0, unchanged: 1, skipped: [] })
      assert.match(server.logged, /dead letters are appended to \S+dead\.jsonl on \S+ while this process leads/)
    })

    if (dialect === 'postgres') return
    await t.test('gets the letters that died without the setting when the setting is back', async () => {
      server.terminate()
      assert.equal((await server.exited).code, 0)
      server = await Program.start(t, 'serve', scene.place.store)
      await scene.publish(server)
      await eventually('all are dead', async () => {
        const [row] = await scene.place.query('select count(*) as dead from dead')
        return Number(row?.dead) === scene.published
      })
      server.terminate()
      assert.equal((await server.exited).code, 0)
      await startHere(t, 'serve', scene.place.store, scene.settings)
      await scene.assertComplete()
    })
  })
}

test('postgres: a file that cannot grow delays letters and nothing else', async (t) => {
  const scene = await Scene.open(t, 'postgres')
  const settings = { ...scene.settings, SLUICE_DEAD_FILE_SIZE: '1GiB' }
  // 8 blocks are 4 KiB: room for a few letters.
  const server = await Program.start(t, 'serve', scene.place.store, settings, { fileBlocks: 8 })
  await scene.prepare(t, server)
  await scene.publish(server)
  await eventually('the trouble is logged', () =>
    /dead letters are not written: .*may not grow any more/.test(server.logged),
  )
  await scene.publish(server)
  await eventually('deliveries go on', async () => {
    const [row] = await scene.place.query('select count(*) as dead from dead')
    return Number(row?.dead) === scene.published
  })
  assert.equal(server.logged.match(/dead letters are not written/g)?.length, 1)
  await server.kill()
  await startHere(t, 'serve', scene.place.store, settings)
  await scene.assertComplete()
})

test('a dead-letter file that cannot be written is refused at the start, and nothing is left behind', async (t) => {
  const scene = await Scene.open(t, 'sqlite')
  const store = join(scene.folder, 'new', 'sluice.db')
  const missing = join(scene.folder, 'missing', 'dead.jsonl')
  const { exit, logged, printed } = await Program.run(t, 'serve', `sqlite:${store}`, { SLUICE_DEAD_FILE: missing })
  assert.equal(exit.code, 2)
  assert.match(
    logged + printed,
    /deadFile: cannot be written: .*the folder does not exist \(ENOENT\)\. Make the folder/,
  )
  assert.deepEqual(readdirSync(scene.folder), [])
})
