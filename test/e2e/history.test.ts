import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { Ledger } from './ledger.ts'
import { openPlace, pendingCount } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

const messages = 60

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: after graceful stops the history has exactly what the receiver counted`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()
    const server = await Program.start(t, 'serve', place.store)
    const workers =
      dialect === 'postgres' ? await Promise.all([1, 2].map(() => Program.start(t, 'worker', place.store))) : []
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    const answered = { '2xx': 0, '5xx': 0 }
    // Every third request fails.
    receiver.behave('/flaky', async () => {
      const fails = (answered['2xx'] + answered['5xx']) % 3 === 0
      answered[fails ? '5xx' : '2xx']++
      return { status: fails ? 503 : 204 }
    })
    const retry = { waits: { kind: 'list', ms: Array.from({ length: 20 }, () => 100) }, jitter: 'none' }
    const { endpoint } = await ledger.subscribe(client, receiver, 'acme', '/flaky', { retry })
    await ledger.publishAll(client, 'acme', messages)
    await eventually('everything is delivered', async () => (await pendingCount(place)) === 0)
    for (const program of [...workers, server]) {
      program.terminate()
      assert.equal((await program.exited).code, 0)
    }

    const again = await startHere(t, 'serve', place.store)
    const historyOf = async (query: string) => {
      const headers = { authorization: `Bearer ${apiKey}` }
      const response = await fetch(`${again.api}/history?range=${query}`, { headers })
      assert.equal(response.status, 200)
      return ((await response.json()) as { totals: Record<string, number> }).totals
    }
    for (const range of ['1h', '7d']) {
      for (const scope of ['', '&app=acme', `&endpoint=${endpoint}`]) {
        const { accepted, delivered, failed, dead, status2xx, status5xx } = await historyOf(`${range}${scope}`)
        assert.deepEqual(
          { accepted, delivered, failed, dead, status2xx, status5xx },
          {
            accepted: scope.includes('endpoint') ? 0 : messages,
            delivered: messages,
            failed: answered['5xx'],
            dead: 0,
            status2xx: answered['2xx'],
            status5xx: answered['5xx'],
          },
          range + scope,
        )
      }
    }
  })
}
