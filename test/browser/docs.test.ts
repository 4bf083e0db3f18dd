import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openPage } from './browser.ts'
import { adminKey, openWorld, skip } from './dashboard.ts'

describe('the reference under /docs/reference', { skip }, () => {
  test('can be read without signing in, is accessible, and fits in light and dark, wide and narrow', async (t) => {
    const { url } = await openWorld(t)
    const page = await openPage(t, 1280)
    /** Each address, with a text that shows when it is there. */
    const places = {
      '/docs/reference': 'Webhook delivery that loses nothing',
      '/docs/reference#v1.message.create': 'a time such as 2026-11-16T09:00:00Z',
      '/docs/reference#v1.endpoint.create': 'throttleRate',
    }
    for (const [path, text] of Object.entries(places)) {
      await page.goto('about:blank')
      await page.goto(`${url}${path}`)
      await page.sees(text)
      assert.deepEqual(await page.problems('layout and axe'), [], path)
      assert.deepEqual(page.complaints, [], path)
    }
  })

  test('opens at the errors, and at the anchors of earlier versions', async (t) => {
    const { url } = await openWorld(t)
    const page = await openPage(t, 1280)
    await page.goto(`${url}/docs/reference#errors`)
    await page.until(`document.getElementById('errors')?.getBoundingClientRect().top < 100`)
    await page.evaluate(`location.hash = 'v1-dead-import'`)
    await page.sees('application/jsonl')
    assert.deepEqual(page.complaints, [])
  })

  test('finds an operation by the keyboard alone, and its address leads there again', async (t) => {
    const { url } = await openWorld(t)
    const page = await openPage(t, 1280)
    await page.goto(`${url}/docs/reference`)
    await page.sees('Authentication')
    await page.key('/')
    await page.until(`document.activeElement?.matches('.side .search')`)
    await page.type('rotate secret')
    await page.sees('found')
    await page.key('Enter')
    await page.until(`location.hash === '#v1.endpoint.rotate-secret'`)
    await page.sees('gracePeriodSeconds')
    await page.until(`document.title.includes('·') && document.activeElement?.id === 'main'`)
    await page.evaluate('history.back()')
    await page.sees('Authentication')
    await page.key('/')
    await page.fill('search', 'no-operation-has-this')
    await page.sees('No operation has all these words.')
  })

  test('shows every way to send a request, and nested fields in their place', async (t) => {
    const { url } = await openWorld(t)
    const page = await openPage(t, 1280)
    await page.goto(`${url}/docs/reference#v1.endpoint.create`)
    for (const [way, code] of Object.entries({
      curl: '--data-binary',
      fetch: 'await fetch(',
      'Svix JS': "await svix.endpoint.create('acme'",
      'Svix Python': 'svix.endpoint.create("acme", EndpointIn(',
      Library: "await sluice.request('POST', '/app/acme/endpoint'",
    })) {
      await page.press(way)
      await page.sees(code)
    }
    const open = `[...document.querySelectorAll('summary')].find((each) => each.innerText.endsWith('of retry'))`
    await page.until(`${open} !== undefined`)
    await page.evaluate(`${open}.click()`)
    await page.sees('maxAgeMs')
    assert.deepEqual(page.complaints, [])
  })

  test('sends a request with a pasted key, which it keeps in memory only', async (t) => {
    const { url, ask } = await openWorld(t)
    const page = await openPage(t, 1280)
    await page.goto(`${url}/docs/reference#v1.message.create`)
    await page.sees('Try it')
    assert.equal(await page.evaluate(`document.querySelector('.try [type=submit]').disabled`), true)
    await page.fill('key', adminKey)
    await page.fill('body', '{"eventType":"video.trending","eventId":"from-the-docs","payload":{"n":1.0}}')
    // The code follows the fields.
    await page.sees('from-the-docs')
    await page.press('Send request')
    await page.until(`document.querySelector('.try .outcome')?.innerText.includes('202')`)
    assert.equal((await ask('GET', '/app/acme/msg/from-the-docs')).eventId, 'from-the-docs')
    const kept = await page.evaluate(
      `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state])`,
    )
    assert.ok(!String(kept).includes(adminKey), String(kept))
    assert.deepEqual(page.complaints, [])
    await page.fill('key', 'sk_wrong')
    await page.press('Send request')
    await page.sees('authentication_failed')
  })

  test('sends a request with the session of the dashboard, and its token against forgery', async (t) => {
    const { ask, signedIn } = await openWorld(t)
    const page = await signedIn('/docs/reference#v1.endpoint.pause')
    await page.sees('Sent with your session of the dashboard')
    await page.fill('endpoint_id', 'main')
    await page.press('Send request')
    await page.until(`document.querySelector('.try .outcome')?.innerText.includes('200')`)
    assert.equal((await ask('GET', '/app/acme/endpoint/main/lane')).state, 'paused')
    await page.evaluate(`location.hash = 'v1.live.follow'`)
    await page.sees('Follow')
    await page.press('Send request')
    await page.until(`document.querySelector('.try .outcome')?.innerText.includes('as it comes')`)
    assert.deepEqual(page.complaints, [])
  })
})
