import type { TestContext } from 'node:test'

/** How long something lives that a test starts: until the test ends. Other programs bring an object of their own. */
export type Life = Pick<TestContext, 'after' | 'diagnostic'>

const ends = new WeakMap<Life, (() => unknown)[]>()

/**
 * Does something when the test ends, however it ends: the last comer's first, so that a process is gone before the files
 * it writes to. (`t.after` alone goes in the order of asking.)
 */
export function atEnd(t: Life, end: () => unknown): void {
  const known = ends.get(t)
  if (known) {
    known.push(end)
    return
  }
  const list = [end]
  ends.set(t, list)
  t.after(async () => {
    for (const each of list.toReversed()) await each()
  })
}
