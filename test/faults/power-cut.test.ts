import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { cutPower, lookBefore, type Unsynced } from '../../faults/power-cut.ts'
import type { Operation, TraceRecord } from '../../faults/trace.ts'
import { chanceOf } from '../attack/chance.ts'

/** A folder with one file of 2,048 zeros, and a way to cut its power after some records. */
function disk(t: TestContext) {
  const place = mkdtempSync(join(tmpdir(), 'sluice-power-cut-'))
  t.after(() => rmSync(place, { recursive: true }))
  const folder = join(place, 'disk')
  mkdirSync(folder)
  writeFileSync(join(folder, 'a'), Buffer.alloc(2048))
  const { ino } = statSync(join(folder, 'a'))
  const before = lookBefore(folder, join(place, 'before'))
  const into = join(place, 'into')
  const record = (operation: Operation, changed: Partial<TraceRecord> = {}): TraceRecord => ({
    ...{ operation, atMs: 0, inode: ino, offset: 0, token: 0n, path: '', to: '', data: Buffer.alloc(0), ...changed },
  })
  const cut = (unsynced: Unsynced, seed: number, ...records: TraceRecord[]) => {
    const { lostWrites } = cutPower(before, records, unsynced, chanceOf(seed), into)
    return {
      lostWrites,
      has: (name: string) => existsSync(join(into, name)),
      file: (name = 'a') => readFileSync(join(into, name)),
    }
  }
  const write = (byte: number, offset: number, length: number) =>
    record('write', { offset, data: Buffer.alloc(length, byte) })
  const sync = (token: bigint, end: Operation = 'sync ended', changed: Partial<TraceRecord> = {}) =>
    [record('sync begun', { token, ...changed }), record(end, { token, ...changed })] as const
  return { folder, record, cut, write, sync }
}

test('a write that was synced survives, and one behind the begin of the sync is dropped', (t) => {
  const { cut, write, sync } = disk(t)
  const [begun, ended] = sync(1n)
  const { file, lostWrites } = cut('dropped', 1, write(1, 0, 512), begun, write(2, 512, 512), ended)
  assert.deepEqual([file()[0], file()[512], lostWrites], [1, 0, 1])
})

test('a sync that did not end before the cut saves nothing', (t) => {
  const { cut, write, sync } = disk(t)
  assert.equal(cut('dropped', 1, write(1, 0, 512), sync(1n)[0]).file()[0], 0)
  assert.equal(cut('kept', 1, write(1, 0, 512), sync(1n)[0]).file()[0], 1)
})

test('what a failed sync covered is not saved by a later one', (t) => {
  const { cut, write, sync } = disk(t)
  const records = [write(1, 0, 512), ...sync(1n, 'sync failed'), write(2, 512, 512), ...sync(2n)]
  const { file } = cut('dropped', 1, ...records)
  assert.deepEqual([file()[0], file()[512]], [0, 2])
})

test('a torn write is torn between sectors, and a seed tears it in one way', (t) => {
  const { cut, write } = disk(t)
  const seen = new Set<string>()
  for (let seed = 0; seed < 40; seed++) {
    const bytes = cut('torn', seed, write(1, 0, 2048)).file()
    for (let at = 0; at < 2048; at++) assert.equal(bytes[at], bytes[at - (at % 512)], 'a sector is written whole')
    seen.add([0, 512, 1024, 1536].map((at) => bytes[at]).join(''))
    assert.deepEqual(cut('torn', seed, write(1, 0, 2048)).file(), bytes)
  }
  assert.ok(seen.has('0000') && seen.has('1111') && seen.size > 5, [...seen].join(' '))
})

test('a new name survives a sync of its directory, and not one of the file alone', (t) => {
  const { folder, cut, record, sync } = disk(t)
  const inode = 987_654_321
  const path = join(folder, 'b')
  const made = [record('create', { inode, path }), record('write', { inode, data: Buffer.from('new') })]
  const file = sync(1n, 'sync ended', { inode, path })
  const directory = sync(2n, 'sync ended', { inode: 1, path: folder })
  assert.equal(cut('dropped', 1, ...made, ...file).has('b'), false)
  assert.equal(
    cut('dropped', 1, ...made, ...file, ...directory)
      .file('b')
      .toString(),
    'new',
  )
  assert.equal(cut('dropped', 1, ...made, ...directory).file('b').length, 0)
})

test('a sync of the whole file system saves everything before it', (t) => {
  const { folder, cut, record, write, sync } = disk(t)
  const made = record('create', { inode: 987_654_321, path: join(folder, 'b') })
  const all = sync(1n, 'sync ended', { inode: 0 })
  const { has, file } = cut('dropped', 1, write(1, 0, 512), made, ...all, write(2, 0, 512))
  assert.deepEqual([has('b'), file()[0]], [true, 1])
})
