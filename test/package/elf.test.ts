import assert from 'node:assert/strict'
import { openSync, readSync } from 'node:fs'
import { test } from 'node:test'
import { isElf, withBlob } from '../../scripts/exe/elf.ts'

const blob = Buffer.from('blob')

/** The first bytes of the Node that runs: the head of the program and its table of segments, without their contents. */
function headOfNode(): Buffer {
  const head = Buffer.alloc(4096)
  readSync(openSync(process.execPath, 'r'), head)
  return head
}

test('a program that is not laid out as Node is refused, not damaged', () => {
  const wide = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1])
  for (const program of [Buffer.alloc(0), Buffer.from('MZ'), Buffer.from('#!/bin/sh\n'), Buffer.alloc(4096)]) {
    assert.equal(isElf(program), false)
    assert.throws(() => withBlob(program, blob), /no ELF program/)
  }
  // Without segments, and cut off in the middle of its table.
  assert.throws(() => withBlob(Buffer.concat([wide, Buffer.alloc(4096)]), blob), /no loaded segment/)
  assert.throws(() => withBlob(wide, blob), RangeError)
})

test('a Node without the fuse is refused', { skip: process.platform === 'linux' ? false : 'needs Linux' }, () => {
  assert.throws(() => withBlob(headOfNode(), blob), /has no fuse/)
})
