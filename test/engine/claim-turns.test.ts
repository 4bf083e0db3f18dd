import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClaimTurns } from '../../src/engine/claim-turns.ts'
import type { DueLane, DueLanes, DueLimits, DuePlace } from '../../src/store/store.ts'

const claimLanes = 64

/** Due lanes of applications, as a store answers them. `steps` counts the steps of the walk. */
class Due {
  readonly apps = new Map<number, number[]>()
  steps = 0

  /** Makes lanes due; an application's lanes are its key times a million, and on. */
  add(app: number, count: number): void {
    const lanes = this.apps.get(app) ?? []
    for (let n = 0; n < count; n++) lanes.push(app * 1_000_000 + lanes.length)
    this.apps.set(app, lanes)
  }

  /** Takes those of the lanes that are still due, as a store does. */
  claim(endpoints: readonly number[]): number[] {
    assert.equal(new Set(endpoints).size, endpoints.length)
    return endpoints.filter((endpoint) => {
      const app = Math.floor(endpoint / 1_000_000)
      const lanes = this.apps.get(app) ?? []
      this.apps.set(
        app,
        lanes.filter((each) => each !== endpoint),
      )
      return lanes.includes(endpoint)
    })
  }

  readonly findDue = async (after: DuePlace | null, most: DueLimits): Promise<DueLanes> => {
    this.steps++
    const keys = [...this.apps.keys()].filter((app) => app > (after?.app ?? -1)).sort((a, b) => a - b)
    const walked = keys.slice(0, most.applications)
    const lanes: DueLane[] = walked.flatMap((app) =>
      (this.apps.get(app) ?? []).slice(0, most.lanesEach).map((endpoint) => ({ endpoint, app })),
    )
    const last = walked.at(-1)
    return { lanes, next: walked.length < most.applications || last === undefined ? null : { app: last, region: '' } }
  }
}

function open(unstarted: (app: number) => number = () => 0) {
  const due = new Due()
  const turns = new ClaimTurns({ store: due, regions: null, unstarted })
  const claim = async () => {
    return due.claim(await turns.next(claimLanes)).map((endpoint) => Math.floor(endpoint / 1_000_000))
  }
  return { due, turns, claim }
}

test('in the first choice each application has a turn of a few lanes, whatever it has', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  due.add(1, 10_000)
  for (let app = 2; app <= 20; app++) due.add(app, 1)
  const chosen = await claim()
  assert.deepEqual(new Set(chosen), new Set(Array.from({ length: 20 }, (_, n) => n + 1)))
  assert.equal(chosen.filter((app) => app === 1).length, 8)
})

test('the lanes of a turn lie beside each other', async () => {
  const { due, turns } = open()
  turns.crowd()
  for (let app = 1; app <= 100; app++) due.add(app, 100)
  const chosen = await turns.next(claimLanes)
  for (let at = 0; at < claimLanes; at += 8) {
    const first = chosen[at] as number
    assert.deepEqual(
      chosen.slice(at, at + 8),
      Array.from({ length: 8 }, (_, n) => first + n),
    )
  }
})

test('1,000 applications with 100 lanes each get as many claims each, within a pass', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  for (let app = 1; app <= 1000; app++) due.add(app, 100)
  const claimed = new Map<number, number>()
  for (let n = 0; n < 300; n++) for (const app of await claim()) claimed.set(app, (claimed.get(app) ?? 0) + 1)
  assert.equal(claimed.size, 1000)
  const counts = [...claimed.values()]
  assert.ok(Math.max(...counts) - Math.min(...counts) <= 8, `${Math.min(...counts)} to ${Math.max(...counts)}`)
})

test('the first lane of an application that wakes goes before those of applications with a backlog', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  for (let app = 1; app <= 1000; app++) due.add(app, 100)
  await claim()
  due.add(5000, 1)
  turns.woken([{ app: 5000, endpoint: 5_000_000_000 }])
  assert.ok((await claim()).includes(5000))
})

test('an application that had its turn waits behind the others when it wakes again, and not for the walk', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  for (let app = 1; app <= 60; app++) due.add(app, 100)
  const wake = (n: number) => {
    due.add(5000, 1)
    turns.woken([{ app: 5000, endpoint: 5_000_000_000 + n }])
  }
  wake(0)
  assert.ok((await claim()).includes(5000))
  wake(1)
  const next: number[][] = []
  for (let n = 0; n < 8; n++) next.push(await claim())
  assert.ok(!next[0]?.includes(5000))
  assert.ok(next.flat().includes(5000))
})

test('newcomers without end leave half of the choices to the others', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  for (let app = 1; app <= 1000; app++) due.add(app, 100)
  let others = 0
  for (let n = 0; n < 20; n++) {
    for (let app = 5000 + 100 * n; app < 5100 + 100 * n; app++) {
      due.add(app, 1)
      turns.woken([{ app, endpoint: app * 1_000_000 }])
    }
    others += (await claim()).filter((app) => app <= 1000).length
  }
  assert.equal(others, (20 * claimLanes) / 2)
})

test('an application with many lanes that started nothing gets no more, and holds up no other', async () => {
  let blocked = true
  const { due, turns, claim } = open((app) => (app <= 40 && blocked ? 32 : 0))
  turns.crowd()
  for (let app = 1; app <= 40; app++) due.add(app, 100)
  due.add(1000, 5)
  const chosen: number[] = []
  for (let n = 0; n < 5; n++) chosen.push(...(await claim()))
  assert.deepEqual(chosen, Array(5).fill(1000))
  assert.deepEqual(await claim(), [], 'nothing else can be had')
  assert.ok(turns.isCrowded, 'the others are still due')
  blocked = false
  assert.equal((await claim()).length, claimLanes)
})

test('an application gets at most 32 lanes before one of them has started something', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  due.add(1, 1000)
  await claim()
  assert.equal((await claim()).length, 32)
})

test('a pass that finds nothing due ends the crowd', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  due.add(1, 3)
  due.add(2, 0)
  assert.deepEqual(await claim(), [1, 1, 1])
  assert.ok(turns.isCrowded)
  assert.deepEqual(await claim(), [])
  assert.ok(!turns.isCrowded)
})

test('a choice takes one step of the walk, however many applications have lanes that rest', async () => {
  const { due, turns, claim } = open()
  turns.crowd()
  for (let app = 1; app <= 50_000; app++) due.apps.set(app, [])
  due.add(50_001, 1)
  await claim()
  assert.equal(due.steps, 1)
  for (let n = 0; n < 50_000 / 64; n++) await claim()
  assert.deepEqual(due.apps.get(50_001), [], 'the walk got there')
})
