import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { newDatabase } from '../store/postgres-harness.ts'
import { openWorld, skip } from './dashboard.ts'

const stores = { SQLite: async () => 'sqlite::memory:', Postgres: newDatabase }
const secret = "It's a Secret to Everybody"

/** A webhook as GitHub sends it. */
function githubPush(url: string, key: string, delivery: string, event = 'push'): Promise<Response> {
  const body = `{"ref":"refs/heads/main","delivery":"${delivery}"}`
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': event,
      'x-github-delivery': delivery,
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
    },
    body,
  })
}

for (const [name, newStore] of Object.entries(stores)) {
  describe(`sources on ${name}`, { skip }, () => {
    test('a source is added, gets events, shows refused requests, and is changed, rotated, disabled and deleted', async (t) => {
      const { url, ask, signedIn, received } = await openWorld(t, await newStore())
      const page = await signedIn('/sources')
      const textOf = (selector: string) =>
        page.evaluate(`document.querySelector(${JSON.stringify(selector)}).innerText`)
      const looksRight = async (place: string) => {
        if (name === 'SQLite') assert.deepEqual(await page.problems('layout and axe'), [], place)
      }
      await page.sees('No sources yet')
      await looksRight('the empty list')

      // The form follows the provider.
      await page.press('Add source')
      await page.sees('X-Hub-Signature-256')
      await page.fill('provider', 'meta')
      await page.sees('Verify token')
      await page.fill('provider', 'hmac')
      await page.sees('Timestamp header')
      await page.fill('header', 'X-Signature')
      await page.fill('signed', '{timestamp}.{body}')
      await page.press('Add', 'dialog')
      await page.sees('belongs to {timestamp} in signed: give both or none')
      await looksRight('the form')
      await page.fill('provider', 'github')
      await page.fill('name', 'Repository <b>one</b>')
      await page.fill('secret', secret)
      await page.press('Add', 'dialog')
      await page.sees('Repository <b>one</b> is ready')
      await page.sees('Payload URL')
      await looksRight('the URL to paste')
      const pasted = String(await textOf('dialog .code-block pre'))
      assert.ok(pasted.startsWith(`${url}/in/`), pasted)

      // The URL works as it is pasted, and the page shows what arrives.
      await page.press('Open the source')
      await page.sees('No events yet')
      assert.equal((await githubPush(pasted, secret, 'd-1', 'ping')).status, 200)
      assert.equal((await githubPush(pasted, secret, 'd-2')).status, 202)
      assert.equal((await githubPush(pasted, 'wrong', 'd-3')).status, 401)
      await page.until("document.querySelector('[aria-label=Events]').innerText.includes('push')")
      await page.sees('No secret of the source makes the signature in the header x-hub-signature-256.')
      await eventually('the event was delivered', async () => received.some((body) => body.includes('"d-2"')))
      await page.press('Show')
      await page.sees('"delivery":"d-3"')
      await looksRight('a refused request')
      await page.press('Close')
      await looksRight('a source')

      // A new secret counts beside the old one.
      await page.press('More actions')
      await page.press('New secret…', '.menu')
      await page.press('Change', 'dialog')
      await page.sees('It is shown only now.')
      const made = String(await textOf('dialog .code-block pre')).trim()
      await page.press('Close')
      await page.sees('The old secret works until')
      await eventually('both secrets count', async () => {
        const both = [await githubPush(pasted, made, 'd-4'), await githubPush(pasted, secret, 'd-5')]
        return both.every(({ status }) => status === 202 || status === 200)
      })

      // A new URL; the old one ends at once.
      await page.press('More actions')
      await page.press('New URL…', '.menu')
      await page.fill('grace', '0')
      await page.press('Make a new URL', 'dialog')
      await page.sees('Paste it at GitHub')
      const next = String(await textOf('dialog .code-block pre')).trim()
      assert.notEqual(next, pasted)
      await page.press('Close')
      await eventually('the old URL ends', async () => (await githubPush(pasted, made, 'd-6')).status === 404)
      assert.equal((await githubPush(next, made, 'd-7')).status, 202)

      // Changed settings count for the next event.
      await page.press('More actions')
      await page.press('Change…', '.menu')
      await page.fill('name', 'Renamed')
      await page.fill('eventType', 'code.{header:x-github-event}')
      await page.press('Save', 'dialog')
      await page.sees('Saved.')
      await eventually('the event type is that of the new template', async () => {
        await githubPush(next, made, `d-${Math.random()}`)
        const { data } = await ask('GET', '/app/acme/msg')
        return data[0].eventType === 'code.push'
      })
      await page.sees('Renamed')

      await page.press('Disable')
      await page.sees('Disabled: its URL answers 404.')
      await eventually('its URL answers 404', async () => (await githubPush(next, made, 'd-8')).status === 404)
      await page.press('Enable')
      await eventually('its URL works again', async () => (await githubPush(next, made, 'd-9')).status === 202)

      const [listed] = (await ask('GET', '/source')).data
      assert.deepEqual((await ask('GET', `/find?text=${listed.id}`)).data, [
        { kind: 'source', id: listed.id, appId: listed.appId, name: 'Renamed' },
      ])
      await page.goto(`${url}/sources`)
      await page.sees('Renamed')
      await looksRight('the list')
      await page.evaluate("document.querySelector('.tbody a').click()")
      await page.sees('Set up')
      await page.press('More actions')
      await page.press('Delete…', '.menu')
      await page.fill('typed', 'Renamed')
      await page.press('Delete', 'dialog')
      await page.sees('No sources yet')
      assert.equal((await ask('GET', '/source')).data.length, 0)
      // The browser itself complains about the refused request of the form.
      assert.deepEqual(
        page.complaints.filter((text) => !text.includes('422')),
        [],
      )
    })
  })
}
