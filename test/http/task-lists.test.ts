import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openApi } from './api.ts'

const readers = 10
const tasks = 120

test('lists of tasks that many callers ask for at once are read one part in each turn', async (t) => {
  const { deps, app } = await openApi()
  await app.close()
  const { store } = deps
  let rowsOfTurn = 0
  let most = 0
  const counting: typeof store = {
    ...store,
    listTasks(page) {
      if (rowsOfTurn === 0) {
        setImmediate(() => {
          rowsOfTurn = 0
        })
      }
      rowsOfTurn += page.limit
      most = Math.max(most, rowsOfTurn)
      return store.listTasks(page)
    },
  }
  const { ask, app: server } = await openApi({ store: counting })
  t.after(async () => {
    await server.close()
    await store.close()
  })
  const work = { type: 'event-type.aggregate', input: {} } as const
  for (let i = 0; i < tasks; i++) await store.createTask({ app: null, work, data: {} })
  const lists = Array.from({ length: readers }, () => ask('GET', '/api/v1/background-task?limit=250'))
  for (const { json } of await Promise.all(lists)) assert.equal(json.data.length, tasks)
  assert.ok(most > 0 && most <= 100, `${most} rows were read in one turn`)
})
