import assert from 'node:assert/strict'
import {
  appendFileSync,
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
import { DeadFile, type DeadFileParts, fileProblem } from '../../src/features/dead-file/job.ts'
import { readLine, unfiledLines } from '../../src/features/dead-lines/service.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { Scanner } from '../../src/json/scan.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { lockAlone } from '../../src/store/sqlite/database-file.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { HeldCalls } from '../engine/held-calls.ts'
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
    await harness.store.beginDeadFiling()
    return place
  }

  file(change: Partial<DeadFileParts> = {}): DeadFile {
    const { store } = this.world
    const say = (level: string) => (sentence: string) => void this.logged.push(`${level}: ${sentence}`)
    return new DeadFile({
      path: this.path,
      limitBytes: 1e9,
      machine: 'here',
      store,
      clock: this.clock,
      randomText: systemRandomText,
      nextLines: () => unfiledLines({ store, clock: systemClock, scanner }),
      lock: lockAlone,
      log: { info: say('info'), warn: say('warn'), error: say('error') },
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

/** The id of a file in the store. */
function idOf(path: string): string {
  return readFileSync(`${path}.id`, 'utf8').split(' ')[0] ?? ''
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
  await first.close(minute)
  assert.deepEqual(place.filed, place.died)
  assert.deepEqual(readdirSync(place.folder).toSorted(), ['dead.jsonl', 'dead.jsonl.id', 'dead.jsonl.lock'])
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

test('a crash at any call of the store, before or after it took effect, loses and doubles nothing', async (t) => {
  for (const when of ['before', 'after', 'torn'] as const) {
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
            if (crashes && when !== 'after') throw new StoreTrouble('the process dies here')
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
      // A process that dies while it writes leaves part of its lines.
      const id = idOf(place.path)
      const position = await place.world.store.findDeadFile(id)
      assert(position)
      if (when === 'torn' && existsSync(place.path)) {
        const { size } = statSync(place.path)
        if (size > position.bytes) truncateSync(place.path, Math.floor((size + position.bytes) / 2))
      }
      const next = place.file({ limitBytes })
      await next.open()
      // No half line is left, before anything is written.
      if (existsSync(place.path)) place.idsIn('dead.jsonl')
      await place.die()
      await finish(next)
      assert.deepEqual(place.filed, place.died, `${when} call ${crashAt}`)
      assert.deepEqual(
        place.logged.filter((line) => !line.startsWith('info')),
        [],
      )
      if (!reached) break
    }
  }
})

test('a process that is paused in a step keeps others from writing, and goes on where it was', async (t) => {
  const place = await Place.open(t)
  await place.die()
  const paused = Promise.withResolvers<void>()
  const resumed = Promise.withResolvers<void>()
  const { store } = place.world
  const old = place.file({
    async nextLines() {
      const lines = await unfiledLines({ store, clock: systemClock, scanner })
      paused.resolve()
      await resumed.promise
      return lines
    },
  })
  const step = old.step()
  await paused.promise
  await place.die()
  const current = place.file()
  await current.open()
  assert.equal(await current.step(), false)
  assert.deepEqual(place.filed, [])
  assert.deepEqual(
    place.logged.filter((line) => line.startsWith('error')),
    [],
  )
  await place.clock.advance(minute)
  await current.step()
  assert.match(place.logged.at(-1) ?? '', /^error: dead letters are not written: another process has .*\.lock\. End it/)
  resumed.resolve()
  await step
  await finish(current)
  assert.deepEqual(place.filed, place.died)
  assert.match(place.logged.at(-1) ?? '', /again$/)
})

test('two machines with files of their own hold each letter once together', async (t) => {
  const place = await Place.open(t)
  const other = join(place.folder, 'other')
  mkdirSync(other)
  await place.die(3)
  const { store } = place.world
  const read = Promise.withResolvers<void>()
  const resumed = Promise.withResolvers<void>()
  const slow = place.file({
    async nextLines() {
      const lines = await unfiledLines({ store, clock: systemClock, scanner })
      read.resolve()
      await resumed.promise
      return lines
    },
  })
  const step = slow.step()
  await read.promise
  await finish(place.file({ path: join(other, 'dead.jsonl') }))
  resumed.resolve()
  await step
  // The slow one had appended the same letters, and cut them off.
  assert.deepEqual(place.filed, [])
  assert.deepEqual(place.idsIn('other/dead.jsonl'), place.died)
  await place.die()
  await finish(slow)
  assert.deepEqual([...place.idsIn('other/dead.jsonl'), ...place.filed], place.died)
})

test('lines whose end the store did not confirm are checked although the process leads no more', async (t) => {
  const place = await Place.open(t)
  await place.die()
  await finish(place.file())
  await place.die()
  let isLost = false
  const { store } = place.world
  const file = place.file({
    store: {
      ...store,
      async moveDeadFile(id, from, to, filed) {
        isLost ||= filed.length > 0
        if (isLost) throw new StoreTrouble('no answer')
        return store.moveDeadFile(id, from, to, filed)
      },
    },
  })
  await assert.rejects(file.step(), StoreTrouble)
  assert.equal(place.filed.length, 2)
  await place.clock.advance(10_000)
  await file.close(0)
  assert.deepEqual(place.filed, place.died.slice(0, 1))
})

test('a close ends within its time although the store does not answer', async (t) => {
  const place = await Place.open(t)
  const held = new HeldCalls<Parameters<Store['listUnfiled']>, Awaited<ReturnType<Store['listUnfiled']>>>()
  const { store } = place.world
  const over: Partial<Store> = { listUnfiled: held.method }
  const file = place.file({
    store: new Proxy(store, { get: (target, name) => Reflect.get(name in over ? over : target, name) }),
    clock: place.clock,
  })
  let isClosed = false
  const closed = file.close(1000).then(() => {
    isClosed = true
  })
  await place.clock.advance(1000)
  assert.equal(held.open, 1)
  assert.ok(isClosed, 'it waits for the store')
  held.next().fail(new StoreTrouble('gone'))
  await closed
})

test('a file that another program moved away, cut, replaced or extended is kept, and logged', async (t) => {
  const changes: [name: string, change: (path: string) => void, kept: boolean][] = [
    ['moved away', (path) => renameSync(path, `${path}.moved`), false],
    ['emptied', (path) => truncateSync(path, 0), false],
    ['cut', (path) => truncateSync(path, 5), true],
    ['extended', (path) => appendFileSync(path, 'more\n'), true],
  ]
  for (const [name, change, isKept] of changes) {
    const place = await Place.open(t)
    const file = place.file()
    await place.die()
    await finish(file)
    change(place.path)
    const changed = isKept ? readFileSync(place.path, 'utf8') : ''
    await place.die()
    await finish(file)
    assert.deepEqual(place.idsIn('dead.jsonl'), place.died.slice(1), name)
    if (isKept) assert.equal(readFileSync(`${place.path}.1`, 'utf8'), changed, name)
    const warnings = place.logged.filter((line) => line.startsWith('warn'))
    assert.equal(warnings.length, 1, name)
    assert.match(warnings[0] ?? '', /another program changed it\. .*a new file begins$/i)
  }
})

test('two stores that are given one file by mistake lose nothing', async (t) => {
  const [one, two] = [await Place.open(t), await Place.open(t)]
  for (let i = 0; i < 3; i++) {
    await one.die()
    await finish(one.file())
    await two.die()
    await finish(two.file({ path: one.path }))
  }
  assert.deepEqual(one.filed.toSorted(), [...one.died, ...two.died].toSorted())
  assert.match(two.logged[0] ?? '', /^warn: .* was not written from this store\. It is .*dead\.jsonl\.1 now/)
})

test('a machine that is cloned with its file cuts off no line of either file', async (t) => {
  const place = await Place.open(t)
  const { store } = place.world
  await place.die(2)
  await finish(place.file())
  const copied = place.died.slice()
  const clone = join(place.folder, 'clone')
  mkdirSync(clone)
  for (const name of ['dead.jsonl', 'dead.jsonl.id']) copyFileSync(join(place.folder, name), join(clone, name))
  // The first machine begins a part and dies in a write that is longer than the file of the clone.
  await place.die(5)
  const dying = place.file({
    limitBytes: 1,
    store: {
      ...store,
      moveDeadFile: (id, from, to, filed) =>
        filed.length > 0
          ? Promise.reject(new StoreTrouble('the process dies here'))
          : store.moveDeadFile(id, from, to, filed),
    },
  })
  await assert.rejects(dying.step(), StoreTrouble)
  await finish(place.file({ path: join(clone, 'dead.jsonl') }))
  await place.die()
  await finish(place.file())
  const cloned = readdirSync(clone).filter((name) => /jsonl(\.\d+)?$/.test(name))
  const all = cloned.flatMap((name) => place.idsIn(`clone/${name}`))
  assert.deepEqual(all.toSorted(), place.died.slice(0, 7).toSorted())
  assert.deepEqual(place.idsIn('dead.jsonl.1'), copied)
  assert.deepEqual(place.idsIn('dead.jsonl'), place.died.slice(7))
})

test('a step and the check of a process do not share the lock', async (t) => {
  const place = await Place.open(t)
  let holders = 0
  const file = place.file({
    lock(path) {
      assert.equal(++holders, 1)
      const unlock = lockAlone(path)
      return () => {
        holders--
        unlock?.()
      }
    },
  })
  await place.die(3)
  await Promise.all([file.open(), file.step(), file.step(), file.open()])
  assert.deepEqual(place.filed, place.died)
})

test('a database that is restored from a backup truncates no lines that it does not know', async (t) => {
  const place = await Place.open(t)
  await place.die()
  await finish(place.file())
  const id = idOf(place.path)
  const before = await place.world.store.findDeadFile(id)
  assert(before)
  await place.die()
  await finish(place.file())
  const now = await place.world.store.findDeadFile(id)
  assert(now)
  await place.world.store.moveDeadFile(id, now, before, [])
  await place.die()
  await finish(place.file())
  assert.deepEqual(place.idsIn('dead.jsonl.1'), place.died.slice(0, 2))
  assert.deepEqual(place.idsIn('dead.jsonl'), place.died.slice(2))
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
