import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { apiKey } from '../e2e/program.ts'
import { dialects, isLong, Target } from './attack.ts'

const megabyte = 2 ** 20
const messages = isLong ? 250 : 9
const readers = isLong ? 200 : 30

/** A payload of one megabyte, without the space that its envelope takes. */
const payload = { text: 'x'.repeat(megabyte - 300) }

for (const dialect of dialects) {
  test(`${dialect}: lists of large payloads hold no other client up, and every page adds up`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    const ids = await publishMany(target, app)
    await target.measure('8 × GET /msg?limit=250 of 1 MB payloads', async () => {
      const lists = ['/msg?limit=250', '/msg?limit=250&order=ascending']
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => target.call('GET', `/app/${app}${lists[i % 2]}`)),
      )
      for (const { status, text } of answers) {
        const page = JSON.parse(text)
        assert.deepEqual([status, page.done, page.data.length >= 1, page.data.length <= 4], [200, false, true, true])
      }
    })
    for (const order of ['ascending', 'descending']) {
      const walked = await walk(target, `/app/${app}/msg?limit=250&order=${order}`)
      assert.deepEqual(walked, order === 'ascending' ? ids : ids.toReversed())
    }
    const without = JSON.parse((await target.call('GET', `/app/${app}/msg?limit=250&with_content=false`)).text)
    assert.deepEqual([without.data.length, without.done], [ids.length, true])
  })

  test(`${dialect}: clients that never read their answers cost little, and get no more of them`, async (t) => {
    const target = await Target.start(t, dialect, { SLUICE_MAX_UNREAD_PER_CLIENT: '1MiB' })
    await target.client.createApplication('a')
    await publishMany(target, 'a')
    await target.measure(
      `${readers} clients that never read`,
      async () => {
        const sockets: Socket[] = []
        for (let i = 0; i < readers; i++) sockets.push(await neverRead(target))
        await eventually('a refusal', async () => (await statusOfLarge(target)) === 429)
        assert.equal((await target.call('GET', '/app/a')).status, 200)
        for (const socket of sockets) socket.destroy()
        await eventually('room again', async () => (await statusOfLarge(target)) === 200)
      },
      { grownMbAtMost: 160 },
    )
  })
}

/** Asks for more than the buffers of the kernel take, and reads nothing of it. */
async function neverRead(target: Target): Promise<Socket> {
  const socket = await target.connect()
  socket.pause()
  const request = `GET /api/v1/app/a/msg?limit=250 HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${apiKey}\r\n\r\n`
  socket.write(request.repeat(8))
  return socket
}

async function statusOfLarge(target: Target): Promise<number> {
  return (await target.call('GET', '/app/a/msg?limit=250')).status
}

/** Publishes messages of one megabyte each; the answer is their ids in their order. */
async function publishMany(target: Target, app: string): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < messages; i++) {
    const { status, text } = await target.call('POST', `/app/${app}/msg?with_content=false`, {
      body: { eventType: 'large.one', payload },
    })
    assert.equal(status, 202, text)
    ids.push(JSON.parse(text).id)
  }
  return ids
}

/** The ids on all pages of a list, forth and back. */
async function walk(target: Target, path: string): Promise<string[]> {
  const ids: string[] = []
  let iterator = ''
  for (let done = false; !done; ) {
    const page = JSON.parse((await target.call('GET', `${path}${iterator}`)).text)
    ids.push(...page.data.map(({ id }: { id: string }) => id))
    iterator = `&iterator=${page.iterator}`
    done = page.done
    if (done) {
      const before: string[] = page.data.map(({ id }: { id: string }) => id)
      for (let back = page.prevIterator, isStart = false; !isStart; ) {
        const earlier = JSON.parse((await target.call('GET', `${path}&iterator=${back}`)).text)
        before.unshift(...earlier.data.map(({ id }: { id: string }) => id))
        back = earlier.prevIterator
        isStart = earlier.done
      }
      assert.deepEqual(before, ids, 'backwards')
    }
  }
  return ids
}
