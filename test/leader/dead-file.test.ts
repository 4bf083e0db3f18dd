import assert from 'node:assert/strict'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { FieldError } from '../../src/domain/app-error.ts'
import { DeadFile, type DeadFileDeps, fileProblem } from '../../src/features/dead-file/job.ts'
import { linesOf, readLine } from '../../src/features/dead-lines/service.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { Scanner } from '../../src/json/scan.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { World } from '../store/conformance/harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'

const scanner = new Scanner(1)
const minute = 60_000

/** A store, a folder for files, and dead letters on demand. */
class Place {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-dead-'))
  readonly path = join(this.folder, 'dead.jsonl')
  readonly clock = new VirtualClock()
  readonly logged: string[] = []
  /** The ids of the messages that died, in order. */
  readonly died: string[] = []
  world!: World
  #endpoint!: Endpoint
  #worker = 0

  static async open(t: TestContext): Promise<Place> {
    const place = new Place()
    const harness = await openSqliteHarness()
    t.after(async () => {
      await harness.close()
      rmSync(place.folder, { recursive: true, force: true })
    })
    place.world = new World(harness)
    place.#endpoint = await place.world.endpoint(await place.world.application())
    const { worker, row } = await place.world.owningOne(place.#endpoint)
    await place.world.settle(worker, place.world.settlement(place.#endpoint, row, { state: 'delivered' }))
    place.#worker = worker
    await harness.store.beginDeadFile(null)
    return place
  }

  file(change: Partial<DeadFileDeps> = {}): DeadFile {
    const { store } = this.world
    const say = (level: string) => (sentence: string) => void this.logged.push(`${level}: ${sentence}`)
    return new DeadFile({
      path: this.path,
      limitBytes: 1e9,
      machine: 'here',
      writer: systemRandomText(16),
      store,
      clock: this.clock,
      linesOf: (letters) => linesOf({ store, clock: systemClock, scanner }, letters),
      log: { info: say('info'), error: say('error') },
      ...change,
    })
  }

  async die(count = 1): Promise<void> {
    for (let i = 0; i < count; i++) {
      const { id } = await this.world.publish([this.#endpoint])
      const row = await this.world.head(this.#endpoint)
      const dead = { state: 'dead', reason: 'exhausted' } as const
      await this.world.settle(this.#worker, this.world.settlement(this.#endpoint, row, dead))
      this.died.push(id)
    }
    await this.world.pass(1)
  }

  /** The files with dead letters, the oldest first. */
  get files(): string[] {
    const numbered = readdirSync(this.folder).filter((name) => /^dead\.jsonl\.\d+$/.test(name))
    const names = numbered.toSorted((a, b) => Number(a.slice(11)) - Number(b.slice(11)))
    return existsSync(this.path) ? [...names, 'dead.jsonl'] : names
  }

  /** The ids of the messages in a file. Every line must be one that an import reads. */
  idsIn(name: string): string[] {
    const text = readFileSync(join(this.folder, name), 'utf8')
    if (text === '') return []
    assert(text.endsWith('\n'), `${name} ends in half a line`)
    return text
      .slice(0, -1)
      .split('\n')
      .map((line) => {
        const problems: FieldError[] = []
        const read = readLine(scanner, Buffer.from(line), systemClock.now(), problems)
        assert.deepEqual(problems, [])
        return read?.letter.message.id ?? ''
      })
  }

  get filed(): string[] {
    return this.files.flatMap((name) => this.idsIn(name))
  }
}

/** Waits until a process that died in a step has the file no longer. */
async function afterLease({ world }: Place): Promise<void> {
  await world.harness.sql('update dead_file set taken_until = 0')
}

async function finish(file: DeadFile): Promise<void> {
  while (await file.step());
}

test('letters are appended once each, in the order of their deaths, by one process after the other', async (t) => {
  const place = await Place.open(t)
  const first = place.file()
  await first.open()
  assert.deepEqual(place.files, [])
  await place.die(2)
  await finish(first)
  assert.deepEqual(place.filed, place.died)
  await finish(first)
  const second = place.file()
  await second.open()
  await place.die(120)
  await finish(second)
  assert.deepEqual(place.filed, place.died)
  assert.deepEqual(readdirSync(place.folder).toSorted(), ['dead.jsonl'])
  for (const name of readdirSync(place.folder)) assert.equal(statSync(join(place.folder, name)).mode & 0o077, 0, name)
})

test('a full file gets the next free number, and no file is overwritten', async (t) => {
  const place = await Place.open(t)
  await place.die()
  await finish(place.file())
  const { size } = statSync(place.path)
  writeFileSync(`${place.path}.2`, "an operator's own file\n")
  const file = place.file({ limitBytes: size * 2 + 10 })
  for (let i = 0; i < 5; i++) {
    await place.die()
    await finish(file)
  }
  assert.deepEqual(place.files, ['dead.jsonl.1', 'dead.jsonl.2', 'dead.jsonl.3', 'dead.jsonl'])
  const own = place.files.filter((name) => name !== 'dead.jsonl.2')
  assert.deepEqual(
    own.map((name) => place.idsIn(name).length),
    [2, 2, 2],
  )
  assert.deepEqual(
    own.flatMap((name) => place.idsIn(name)),
    place.died,
  )
  assert.equal(readFileSync(`${place.path}.2`, 'utf8'), "an operator's own file\n")
})

test('a letter larger than the limit has a file of its own', async (t) => {
  const place = await Place.open(t)
  const file = place.file({ limitBytes: 10 })
  for (let i = 0; i < 3; i++) {
    await place.die()
    await finish(file)
  }
  assert.deepEqual(place.files, ['dead.jsonl.1', 'dead.jsonl.2', 'dead.jsonl'])
  assert.deepEqual(place.filed, place.died)
})

test('a crash at any call of the store loses no letter, and writes those of one step again at most', async (t) => {
  for (const when of ['before', 'after'] as const) {
    for (let crashAt = 1; ; crashAt++) {
      const place = await Place.open(t)
      await place.die()
      await finish(place.file())
      const limitBytes = statSync(place.path).size * 2
      let calls = 0
      const crashing = new Proxy(place.world.store, {
        get(store, name) {
          const method = store[name as keyof Store] as (...args: unknown[]) => Promise<unknown>
          return async (...args: unknown[]) => {
            const crashes = ++calls === crashAt
            if (crashes && when === 'before') throw new StoreTrouble('the process dies here')
            const answer = await method.apply(store, args)
            if (crashes) throw new StoreTrouble('the process dies here')
            return answer
          }
        },
      })
      let reached = false
      const dying = place.file({ store: crashing, limitBytes })
      for (let i = 0; i < 3 && !reached; i++) {
        await place.die()
        await finish(dying).catch(() => {
          reached = true
        })
      }
      const next = place.file({ limitBytes })
      await next.open()
      await place.die()
      await afterLease(place)
      await finish(next)
      assert.deepEqual([...new Set(place.filed)], place.died, `${when} call ${crashAt}`)
      assert.ok(place.filed.length <= place.died.length + 1, `${when} call ${crashAt}: ${place.filed.length} lines`)
      if (!reached) break
    }
  }
})

test('half a line that a crash left is ended before the next line', async (t) => {
  const place = await Place.open(t)
  await place.die(2)
  await finish(place.file())
  truncateSync(place.path, statSync(place.path).size - 10)
  await place.die()
  await finish(place.file())
  const lines = readFileSync(place.path, 'utf8').split('\n')
  assert.deepEqual([lines.length, lines.at(-1)], [4, ''])
  assert.throws(() => JSON.parse(lines[1] ?? ''))
  assert.equal(JSON.parse(lines[2] ?? '').msgId, place.died[2])
})

test('two processes with a file each write each letter once together, and one goes on when the other dies in a step', async (t) => {
  const place = await Place.open(t)
  const other = join(place.folder, 'other')
  mkdirSync(other)
  const { store } = place.world
  const read = Promise.withResolvers<void>()
  const resumed = Promise.withResolvers<void>()
  const slow = place.file({
    async linesOf(letters) {
      const lines = await linesOf({ store, clock: systemClock, scanner }, letters)
      read.resolve()
      await resumed.promise
      return lines
    },
  })
  const second = place.file({ path: join(other, 'dead.jsonl') })
  await place.die(3)
  const step = slow.step()
  await read.promise
  assert.equal(await second.step(), false)
  assert.deepEqual(readdirSync(other), [])
  resumed.resolve()
  await step
  await place.die()
  await finish(second)
  assert.deepEqual([...place.filed, ...place.idsIn('other/dead.jsonl')], place.died)

  const dying = place.file({ linesOf: () => Promise.reject(new StoreTrouble('the process dies here')) })
  await place.die()
  await assert.rejects(dying.step(), StoreTrouble)
  await finish(second)
  assert.equal(place.idsIn('other/dead.jsonl').length, 1)
  await afterLease(place)
  await finish(second)
  assert.deepEqual([...place.filed, ...place.idsIn('other/dead.jsonl')], place.died)
})

test('a process with regions writes the letters of its regions', async (t) => {
  const place = await Place.open(t)
  await place.world.store.beginDeadFile('eu')
  const elsewhere = place.file({ regions: ['eu'] })
  const here = place.file({ regions: ['default'], path: join(place.folder, 'here.jsonl') })
  await here.open()
  await place.die(2)
  await finish(elsewhere)
  assert.deepEqual(place.filed, [])
  await finish(here)
  assert.deepEqual(place.idsIn('here.jsonl'), place.died)
  await place.world.harness.sql(`update lane set region = 'eu'`)
  await place.die()
  await finish(here)
  await finish(elsewhere)
  assert.deepEqual(place.filed, place.died.slice(2))
  assert.deepEqual(place.idsIn('here.jsonl'), place.died.slice(0, 2))
})

test('a file that another program moved away or emptied is started again', async (t) => {
  const changes: [name: string, change: (path: string) => void][] = [
    ['moved away', (path) => renameSync(path, `${path}.moved`)],
    ['emptied', (path) => truncateSync(path, 0)],
  ]
  for (const [name, change] of changes) {
    const place = await Place.open(t)
    const file = place.file()
    await place.die()
    await finish(file)
    change(place.path)
    await place.die()
    await finish(file)
    assert.deepEqual(place.idsIn('dead.jsonl'), place.died.slice(1), name)
  }
})

test('letters go on after the clock of the store was set back', async (t) => {
  const place = await Place.open(t)
  await place.die()
  await finish(place.file())
  const hour = 60 * minute
  await place.world.harness.sql(`update dead_file set died_at = died_at + ${hour}; delete from dead`)
  await place.die(2)
  await finish(place.file())
  assert.deepEqual(place.filed, place.died)
})

test('a full disk is logged once and then every now and then, and the letters are appended when there is room', async (t) => {
  const place = await Place.open(t)
  await place.die()
  const file = place.file()
  await finish(file)
  rmSync(place.path)
  // A device that is always full.
  symlinkSync('/dev/full', place.path)
  await place.die()
  for (let i = 0; i < 3; i++) assert.equal(await file.step(), false)
  const errors = () => place.logged.filter((line) => line.startsWith('error'))
  assert.equal(errors().length, 1)
  assert.match(errors()[0] ?? '', /there is no space left \(ENOSPC\)\. Free some in .*They wait in the store/)
  await place.clock.advance(11 * minute)
  await file.step()
  assert.equal(errors().length, 2)
  rmSync(place.path)
  await finish(file)
  assert.deepEqual(place.filed, place.died.slice(1))
  assert.match(place.logged.at(-1) ?? '', /^info: dead letters are appended to .* again$/)
})

test('a folder that goes missing is logged with the remedy, and used when it is back', async (t) => {
  const place = await Place.open(t)
  const folder = join(place.folder, 'sub')
  mkdirSync(folder)
  const file = place.file({ path: join(folder, 'dead.jsonl') })
  await place.die()
  await finish(file)
  renameSync(folder, `${folder}.away`)
  await place.die()
  assert.equal(await file.step(), false)
  assert.match(place.logged.at(-1) ?? '', /the folder does not exist \(ENOENT\)\. Make the folder .*sub\. They wait/)
  renameSync(`${folder}.away`, folder)
  await finish(file)
  assert.deepEqual(place.idsIn('sub/dead.jsonl'), place.died)
})

test('a path that cannot be written is a problem with a remedy, and nothing is left behind', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-dead-'))
  t.after(() => rmSync(folder, { recursive: true }))
  assert.equal(fileProblem(join(folder, 'dead.jsonl'), 'p'), undefined)
  assert.match(
    fileProblem(join(folder, 'no', 'dead.jsonl'), 'p') ?? '',
    /does not exist \(ENOENT\)\. Make the folder .*no\.$/,
  )
  assert.match(fileProblem(folder, 'p') ?? '', /is not a file\. Name another one/)
  copyFileSync(import.meta.filename, join(folder, 'file'))
  assert.match(fileProblem(join(folder, 'file', 'dead.jsonl'), 'p') ?? '', /is not a folder \(ENOTDIR\)/)
  assert.deepEqual(readdirSync(folder), ['file'])
})
