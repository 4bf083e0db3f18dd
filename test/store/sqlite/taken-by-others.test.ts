import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { contextWith, placeFor } from '../sqlite-harness.ts'
import { Child } from './child.ts'

const rounds = 24
const perGroup = 25
const names = 300

test('an owner and a guest that publish under the same keys, killed again and again, store one message for each', async (t) => {
  const place = placeFor(t)
  const first = await openSqliteStore(contextWith(systemClock), { path: place.path, role: 'owner' })
  await first.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  await first.close()
  const start = async (role: 'owner' | 'guest') => {
    const child = new Child(place, role)
    assert.equal(await child.line(), 'open')
    return child
  }
  const children = { owner: await start('owner'), guest: await start('guest') }
  const used = new Set<string>()
  const answered = new Set<string>()
  for (let round = 0; round < rounds; round++) {
    const groups = (['owner', 'guest'] as const).map((role, i) => {
      // The two share most of their keys, in another order, and meet those of earlier rounds.
      const group = Array.from({ length: perGroup }, (_, n) => `k${(round * 7 + n * (i === 0 ? 11 : 17)) % names}`)
      return { role, group: [...new Set(group)] }
    })
    for (const { role, group } of groups) {
      for (const name of group) used.add(name)
      children[role].tell(`once ${group.join(' ')}`)
    }
    const killed = round % 8 === 3 ? 'guest' : round % 8 === 7 ? 'owner' : undefined
    for (const { role, group } of groups) {
      if (role === killed) {
        // At any moment: before, in or after its transaction.
        await children[role].kill()
        children[role] = await start(role)
        continue
      }
      const states = (await children[role].line())?.split(' ')
      assert(states?.every((state) => state === 'accepted' || state === 'repeated'))
      for (const name of group) answered.add(name)
    }
  }
  await children.guest.end()
  await children.owner.end()
  using db = new DatabaseSync(place.path, { readOnly: true })
  const stored = db.prepare('select cast(body as text) as name from message').all()
  const found = new Set(stored.map(({ name }) => String(name)))
  assert.equal(found.size, stored.length, 'each key has one message')
  for (const name of answered) assert(found.has(name))
  for (const name of found) assert(used.has(name))
})
