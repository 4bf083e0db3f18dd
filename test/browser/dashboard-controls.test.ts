import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { newDatabase } from '../store/postgres-harness.ts'
import { adminKey, openWorld, skip } from './dashboard.ts'

const stores = { SQLite: async () => 'sqlite::memory:', Postgres: newDatabase }

for (const [name, newStore] of Object.entries(stores)) {
  describe(`the controls of the dashboard on ${name}`, { skip }, () => {
    test('announce a test alert, silence alerts and end the silence', async (t) => {
      const { signedIn, ask } = await openWorld(t, await newStore())
      const page = await signedIn('/alerts')
      await page.sees('No silence')
      await page.press('Send a test')
      await page.sees('A test alert goes to every receiver.')
      const { alerts } = await ask('GET', '/alert')
      assert.ok(alerts.some(({ rule }: { rule: string }) => rule === 'test'))
      await page.press('Silence all')
      await page.fill('reason', 'Maintenance <b>tonight</b>')
      await page.press('Silence', 'dialog')
      await page.sees('Maintenance <b>tonight</b>')
      const { silences } = await ask('GET', '/alert')
      assert.deepEqual(
        silences.map(({ rule, subject }: { rule: unknown; subject: unknown }) => [rule, subject]),
        [[null, null]],
      )
      await page.press('End', 'main')
      await page.sees('No silence')
      assert.deepEqual((await ask('GET', '/alert')).silences, [])
      assert.deepEqual(page.complaints, [])
    })

    test('end one session, and switch between light and dark', async (t) => {
      const { signedIn, ask, url } = await openWorld(t, await newStore())
      const elsewhere = await fetch(`${url}/api/v1/session`, {
        method: 'POST',
        headers: { authorization: `Bearer ${adminKey}` },
      })
      assert.equal(elsewhere.ok, true)
      const page = await signedIn('/keys')
      const sessions = async () => (await ask('GET', '/auth/session')).data.length
      await page.sees(', this one')
      assert.equal(await sessions(), 2)
      await page.press('End', 'main')
      await page.sees('The session is over.')
      assert.equal(await sessions(), 1)
      await page.press('Dark')
      await page.until("document.documentElement.dataset.theme === 'dark'")
      await page.press('Light')
      await page.until("document.documentElement.dataset.theme === 'light'")
      assert.deepEqual(page.complaints, [])
    })

    test('pause, resume and end a task', async (t) => {
      const { signedIn, ask, sluice } = await openWorld(t, await newStore())
      for (let i = 0; i < 30; i++) await sluice.publish('acme', { eventType: 'video.seen', payload: `{"i":${i}}` })
      const { id } = await ask('POST', '/app/acme/endpoint/main/bulk-replay', {
        since: '2020-01-01T00:00:00Z',
        perSecond: 1,
      })
      const stateOf = async () => (await ask('GET', `/background-task/${id}`)).state
      const page = await signedIn(`/tasks/${id}`)
      await page.press('Pause')
      await page.sees('Paused.')
      assert.equal(await stateOf(), 'paused')
      await page.press('Resume')
      await page.sees('Resumed.')
      assert.equal(await stateOf(), 'running')
      await page.press('End')
      await page.press('End it', 'dialog')
      await page.sees('Ended.')
      assert.equal(await stateOf(), 'cancelled')
      assert.deepEqual(page.complaints, [])
    })

    test('retry and skip the first delivery of an ordered lane', async (t) => {
      const { signedIn, ask, sluice, app, target } = await openWorld(t, await newStore())
      await ask('POST', '/event-type', { name: 'ordered.first', description: 'The first of some.' })
      const { id } = await ask('POST', '/app/acme/endpoint', {
        uid: 'ordered',
        url: `${target}/broken`,
        order: 'fifo',
        eventTypes: ['ordered.first'],
        retry: { waits: { kind: 'list', ms: [3_600_000, 3_600_000] } },
      })
      const { id: message } = await sluice.publish('acme', { eventType: 'ordered.first', payload: '{}' })
      const attempts = async () => (await ask('GET', `/app/acme/attempt/endpoint/${id}`)).data.length
      await eventually('the first attempt failed', async () => (await attempts()) === 1)
      const page = await signedIn(`/app/${app.id}/endpoint/${id}`)
      const choose = async (label: string) => {
        await page.press('More actions')
        await page.press(label, '.menu')
      }
      await choose('Retry the first delivery')
      await page.sees('The first delivery is retried.')
      await eventually('the second attempt failed', async () => (await attempts()) === 2)
      await choose('Skip the first delivery')
      await page.sees('The first delivery becomes a dead letter.')
      await eventually('the delivery is a dead letter', async () => {
        const { data } = await ask('GET', '/dead')
        return data.some(({ msgId }: { msgId: string }) => msgId === message)
      })
      assert.deepEqual(page.complaints, [])
    })
  })
}
