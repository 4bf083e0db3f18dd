import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dialects } from '../attack/attack.ts'
import { damage } from '../store/damage.ts'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey } from './program.ts'
import { Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

for (const dialect of dialects) {
  describe(`a damaged record on ${dialect}`, () => {
    test('the other endpoints are delivered to, and the attempt says why its own is not', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const before = await startHere(t, 'serve', place.store)
      const ask = async (server: Server, method: string, path: string, body?: unknown) => {
        const answer = await fetch(`${server.api}${path}`, {
          method,
          headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        assert.ok(answer.ok, `${method} ${path}: ${answer.status}`)
        return answer.status === 204 ? undefined : answer.json()
      }
      await ask(before, 'POST', '/app', { name: 'A', uid: 'a' })
      for (const uid of ['whole', 'secretless', 'headless']) {
        await ask(before, 'POST', '/app/a/endpoint', { uid, url: `${receiver.url}/${uid}`, headers: { 'x-a': 'b' } })
      }
      before.terminate()
      await before.exited
      await damage(place, dialect, { table: 'endpoint', column: 'secrets', where: `uid = 'secretless'`, position: 50 })
      await damage(place, dialect, { table: 'endpoint', column: 'headers', where: `uid = 'headless'`, position: 50 })

      const server = await startHere(t, 'serve', place.store)
      await ask(server, 'POST', '/app/a/msg', { eventType: 'x', payload: {} })
      await receiver.until('the whole endpoint gets it', () => receiver.arrivals.length === 1)
      assert.equal(receiver.arrivals[0]?.path, '/whole')
      for (const uid of ['secretless', 'headless']) {
        const attempt = await eventually('the attempt is recorded', async () => {
          const page = await ask(server, 'GET', `/app/a/attempt/endpoint/${uid}`)
          return (page as { data: unknown[] }).data[0]
        })
        assert.match(JSON.stringify(attempt), /stored secret, headers or credentials of the endpoint cannot be opened/)
      }
      assert.match(server.logged, /nothing can be sent to ep_/)
      // Once it is replaced, the next delivery goes out.
      await ask(server, 'POST', '/app/a/endpoint/secretless/secret/rotate', {})
      await ask(server, 'POST', '/app/a/msg', { eventType: 'x', payload: {} })
      await receiver.until('the repaired endpoint gets it', () =>
        receiver.arrivals.some(({ path }) => path === '/secretless'),
      )
    })
  })
}
