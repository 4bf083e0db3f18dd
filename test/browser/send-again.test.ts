import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import type { BrowserPage } from './browser.ts'
import { openWorld, skip } from './dashboard.ts'

type World = Awaited<ReturnType<typeof openWorld>>

const count = 40
const bodies = Array.from({ length: count }, (_, i) => `{"order":${i}}`)

/** Messages that died at `broken` while it was disabled, and that it takes now. */
async function recovered(world: World): Promise<void> {
  const { ask, sluice, target } = world
  await ask('PATCH', '/app/acme/endpoint/broken', { disabled: true, whileDisabled: 'drop' })
  for (const payload of bodies) await sluice.publish('acme', { eventType: 'order.paid', payload })
  await eventually('they died', async () => (await ask('GET', '/app/acme/dead/count')).count === count + 1)
  await eventually('all arrived at main', () => bodies.every((body) => world.received.includes(body)))
  await ask('PATCH', '/app/acme/endpoint/broken', { url: `${target}/recovered`, disabled: false })
}

/** The first request of this kind never leaves the browser, the answer to the second is lost. */
async function failTwice(page: BrowserPage, path: string): Promise<void> {
  await page.evaluate(`{
    const real = fetch
    let requests = 0
    window.fetch = async (url, init) => {
      if (init?.method !== 'POST' || !String(url).includes(${JSON.stringify(path)})) return real(url, init)
      const lost = () => { throw new TypeError('the network failed') }
      if (++requests === 1) lost()
      const answer = await real(url, init)
      return requests === 2 ? lost() : answer
    }
  }`)
}

/** Presses through two failures to the end of the one task. */
async function pressThrough(page: BrowserPage, world: World, label: string): Promise<void> {
  await page.press(label, 'dialog')
  await page.sees('nothing is sent twice')
  assert.equal(await page.evaluate("document.querySelector('[name=perSecond]').matches(':disabled')"), true)
  await page.press('Try again', 'dialog')
  await eventually('the second request reached the server', async () => (await tasksOf(world)).length === 1)
  await page.sees('nothing is sent twice')
  await page.press('Try again', 'dialog')
  await page.sees('Finished')
  assert.equal((await tasksOf(world)).length, 1)
}

async function tasksOf({ ask }: World): Promise<unknown[]> {
  return (await ask('GET', '/background-task')).data
}

/** Waits until nothing is left to send, and answers how often each body arrived behind the first arrivals. */
async function arrivals({ ask, received }: World, behind: number): Promise<number[]> {
  await eventually('all arrived', () => bodies.every((body) => received.slice(behind).includes(body)))
  // A delivery that has arrived waits until its result is recorded.
  await eventually(
    'nothing waits',
    async () => (await ask('GET', '/app/acme/endpoint/broken/lane')).waiting.total === 0,
  )
  return bodies.map((body) => received.slice(behind).filter((each) => each === body).length)
}

describe('a press that is repeated after a failure', { skip }, () => {
  test('sends each chosen dead letter once, and says how many and how far', async (t) => {
    const world = await openWorld(t)
    await recovered(world)
    const page = await world.signedIn('/dead')
    await page.until(`document.querySelectorAll('.tbody .tr').length > 20`)
    await page.evaluate('document.querySelector(\'[aria-label="Select all"]\').click()')
    await page.press(`Replay ${count + 1}…`)
    await page.sees(`${count + 1} dead letters, as fast`)
    assert.deepEqual(await page.accessibilityProblems(), [])
    await failTwice(page, '/dead/replay')
    const before = world.received.length
    await pressThrough(page, world, `Send ${count + 1} again`)
    await page.sees(`${count + 1} of ${count + 1}`)
    await page.sees(`${count + 1} queued again.`)
    assert.deepEqual(
      await arrivals(world, before),
      bodies.map(() => 1),
    )
    assert.equal((await world.ask('GET', '/app/acme/dead/count')).count, 0, 'the server has none left')
    await page.press('Close', 'dialog footer')
    await page.sees('No dead letters')
  })

  test('sends all messages of an endpoint once more, and not twice', async (t) => {
    const world = await openWorld(t)
    await recovered(world)
    const page = await world.signedIn(`/app/${world.app.id}/endpoint/${world.main.id}`)
    await page.press('More actions')
    await page.press('Send again…', '.menu')
    await page.press('All', 'dialog')
    await page.sees(`Up to ${count + 1} messages`)
    await failTwice(page, '/bulk-replay')
    const before = world.received.length
    await pressThrough(page, world, 'Send again')
    assert.deepEqual(
      await arrivals(world, before),
      bodies.map(() => 1),
    )
  })

  test('sends failed messages once from the portal', async (t) => {
    const world = await openWorld(t)
    await recovered(world)
    const page = await world.signedIn('/')
    const { url } = await world.ask('POST', '/auth/app-portal-access/acme', {})
    await page.goto(url)
    await page.sees('Endpoints')
    await page.goto(`${world.url}/portal/messages?status=fail&event=order.paid`)
    await page.press('Send failed again…')
    await page.sees(`${count} dead letters, as fast`)
    await failTwice(page, '/dead/replay')
    const before = world.received.length
    await pressThrough(page, world, `Send ${count} again`)
    assert.deepEqual(
      await arrivals(world, before),
      bodies.map(() => 1),
    )
  })
})
