import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { openWorld, skip } from './dashboard.ts'

describe('an endpoint in the dashboard', { skip }, () => {
  test('is paused, resumed, opened, closed, disabled and enabled, and says so at once', async (t) => {
    const { signedIn, app, main, ask } = await openWorld(t)
    const page = await signedIn(`/app/${app.id}/endpoint/${main.id}`)
    const stored = () => ask('GET', '/app/acme/endpoint/main')
    await page.sees('No deliveries wait for it.')
    await page.press('Pause')
    await page.sees('The endpoint is paused')
    assert.equal((await stored()).paused, true)
    await page.press('Resume')
    await page.sees('No deliveries wait for it.')

    const choose = async (label: string) => {
      await page.press('More actions')
      await page.press(label, '.menu')
    }
    await choose('Open the circuit')
    await page.sees('Opened by an operator')
    assert.equal((await stored()).state, 'circuit_open')
    await choose('Close the circuit')
    await page.sees('The receiver answers')
    await choose('Close and forget failures')
    await page.sees('Failures are forgotten.')
    await choose('Disable')
    await page.sees('Disabled')
    await eventually('the endpoint is disabled', async () => (await stored()).disabled === true)
    await choose('Enable')
    await eventually('the endpoint is enabled', async () => (await stored()).disabled === false)
    assert.deepEqual(page.complaints, [])
  })

  test('gets a test event, and messages again at a pace, with live progress', async (t) => {
    const { signedIn, app, main, received } = await openWorld(t)
    const page = await signedIn(`/app/${app.id}/endpoint/${main.id}`)
    const before = received.length
    await page.press('Send test event')
    await page.until("document.querySelector('dialog select')?.value === 'video.trending'")
    await page.press('Send', 'dialog')
    await page.sees('The test event is on its way.')
    await eventually('the test event arrived', () => received.length > before)
    await page.press('More actions')
    await page.press('Send again…', '.menu')
    await page.press('All', 'dialog')
    await page.sees('also those that arrived')
    await page.fill('perSecond', '100')
    await page.sees('Up to 2 messages, at most 100/s')
    await page.press('Send again', 'dialog')
    await page.sees('Finished')
    await eventually('the messages arrived again', () => received.length > before + 2)
    assert.deepEqual(page.complaints, [])
  })

  test('shows its secret, rotates it, and takes headers and settings, refusing wrong ones at the field', async (t) => {
    const { signedIn, app, main, ask } = await openWorld(t)
    const page = await signedIn(`/app/${app.id}/endpoint/${main.id}?view=settings`)
    const { key } = await ask('GET', '/app/acme/endpoint/main/secret')
    await page.press('Show')
    await page.sees(key)
    await page.press('Close', 'dialog')
    await page.press('Rotate…')
    await page.press('Rotate', 'dialog')
    await page.sees('The old secret works until')
    assert.notEqual((await ask('GET', '/app/acme/endpoint/main/secret')).key, key)
    await page.press('Close', 'dialog')

    await page.press('Add or change…')
    await page.fill('name', 'X-Tenant')
    await page.fill('value', 'blue')
    await page.press('Save', 'dialog')
    await page.sees('X-Tenant')
    assert.deepEqual((await ask('GET', '/app/acme/endpoint/main/headers')).headers, { 'X-Tenant': 'blue' })

    await page.fill('throttleRate', '25')
    await page.fill('eventTypes', 'video.*\nvideo.trending')
    await page.press('Save changes')
    await page.sees('Settings saved.')
    const changed = await ask('GET', '/app/acme/endpoint/main')
    assert.deepEqual(
      [changed.throttleRate, changed.eventTypes, changed.description],
      [25, ['video.*', 'video.trending'], 'Production'],
    )

    await page.fill('retry', '{"waits": 1}')
    await page.press('Save changes')
    await page.until("document.querySelector('[name=retry]').getAttribute('aria-invalid') === 'true'")
    await page.fill('retry', '{')
    await page.press('Save changes')
    await page.sees('is not valid JSON')
    // The browser logs each refusal by itself.
    assert.deepEqual(
      page.complaints.filter((complaint) => !complaint.includes('status of 422')),
      [],
    )
  })

  test('takes credentials of each kind and a client certificate, shows no secret, and refuses wrong ones at the field', async (t) => {
    const { signedIn, app, main, ask } = await openWorld(t)
    const page = await signedIn(`/app/${app.id}/endpoint/${main.id}?view=settings`)
    const stored = () => ask('GET', '/app/acme/endpoint/main')
    // The dialog shows the names of the kinds, too.
    const dialogCloses = () => page.until("document.querySelector('dialog') === null")
    await page.press('Set credentials…')
    await page.fill('token', 'canary-token')
    await page.press('Save', 'dialog')
    await dialogCloses()
    await page.sees('Bearer token')
    assert.equal((await stored()).auth.kind, 'bearer')

    await page.press('Change credentials…')
    await page.press('OAuth 2.0', 'dialog')
    await page.fill('tokenUrl', 'http://127.0.0.1:9/token')
    await page.fill('clientId', 'sluice')
    await page.press('Save', 'dialog')
    await page.until("document.querySelector('[name=clientSecret]').getAttribute('aria-invalid') === 'true'")
    await page.fill('clientSecret', 'canary-secret')
    await page.press('Save', 'dialog')
    await dialogCloses()
    await page.sees('http://127.0.0.1:9/token')
    assert.equal((await stored()).auth.clientId, 'sluice')

    await page.press('Set certificate…')
    await page.fill('certificate', 'garbage')
    await page.fill('key', 'garbage')
    await page.press('Save', 'dialog')
    await page.sees('must be a certificate as PEM')
    await page.press('Cancel', 'dialog')

    await page.press('Remove credentials…')
    await page.press('Remove', 'dialog')
    await page.sees('No credentials')
    assert.equal((await stored()).auth, null)
    assert.equal(await page.evaluate("document.documentElement.outerHTML.includes('canary')"), false)
    assert.deepEqual(
      page.complaints.filter((complaint) => !complaint.includes('status of 422')),
      [],
    )
  })

  test('is deleted when its uid is typed, and not before', async (t) => {
    const { signedIn, app, paused, ask } = await openWorld(t)
    const page = await signedIn(`/app/${app.id}/endpoint/${paused.id}`)
    await page.press('More actions')
    await page.press('Delete…', '.menu')
    await page.until(
      "[...document.querySelectorAll('dialog button')].find((each) => each.innerText === 'Delete').disabled",
    )
    await page.fill('typed', 'paused')
    await page.press('Delete', 'dialog')
    await page.until(`location.pathname === '/app/${app.id}'`)
    const { data } = await ask('GET', '/app/acme/endpoint')
    assert.deepEqual(data.map(({ uid }: { uid: string }) => uid).sort(), ['broken', 'main'])
    assert.deepEqual(page.complaints, [])
  })
})

describe('a message in the dashboard', { skip }, () => {
  test('shows its payload as it was sent, its attempts in detail, and is sent again', async (t) => {
    const { signedIn, app, message, received } = await openWorld(t)
    const page = await signedIn(`/app/${app.id}/msg/${message.id}`)
    await page.sees('"views": 1.0')
    await page.sees('"<script>alert(1)</script>"')
    await page.press('Raw')
    await page.sees('{"views":1.0,"html":"<script>alert(1)</script>"}')
    await page.sees('It became a dead letter')
    await page.sees('The endpoint is paused')

    await page.evaluate(
      "[...document.querySelectorAll('button.attempt')].find((each) => each.innerText.includes('500')).click()",
    )
    await page.sees('<b>broken</b>')
    await page.sees('in all')
    assert.deepEqual(await page.accessibilityProblems(), [])
    await page.press('Close', 'dialog')

    await page.press('curl')
    await page.sees('The command is on the clipboard.')
    const before = received.length
    await page.press('Resend')
    await page.sees('It is sent again.')
    await eventually('it arrived again', () => received.length > before)
    assert.deepEqual(page.complaints, [])
  })
})
