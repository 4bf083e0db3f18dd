import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { newDatabase } from '../store/postgres-harness.ts'
import { openPage } from './browser.ts'
import { openWorld, skip } from './dashboard.ts'

const stores = { SQLite: async () => 'sqlite::memory:', Postgres: newDatabase }

/** The world of the dashboard's tests, seen by its customer. */
async function openPortal(t: TestContext, store?: string, settings?: Parameters<typeof openWorld>[2]) {
  const world = await openWorld(t, store, settings)
  const { ask, url } = world
  await ask('POST', '/event-type', { name: 'invoice.paid', description: 'An invoice was paid.', groupName: 'Billing' })
  const linkTo = async (app: string, body: object = {}): Promise<string> => {
    const { token } = await ask('POST', `/auth/app-portal-access/${app}`, body)
    return `${url}/portal#app=${(await ask('GET', `/app/${app}`)).id}&token=${token}`
  }
  /** Opens a page of the portal, signed in by a link. Cookies belong to the browser: the latest link counts. */
  const enter = async (path = '/portal', body: object = {}, width = 1280) => {
    const page = await openPage(t, width)
    await page.goto(`${url}/portal`)
    await page.until("document.querySelector('main') !== null")
    if (await page.evaluate('document.querySelector(\'[aria-label="Log out"]\') !== null')) await page.press('Log out')
    await page.sees('Open this page with the link')
    await page.goto(await linkTo('acme', body))
    await page.sees('/main')
    if (path !== '/portal') await page.goto(`${url}${path}`)
    return page
  }
  return { ...world, linkTo, enter }
}

for (const [name, newStore] of Object.entries(stores)) {
  describe(`the portal on ${name}`, { skip }, () => {
    test('opens each page without a message in the console, accessible, in light and dark, wide and narrow', async (t) => {
      const { url, ask, enter, main, message } = await openPortal(t, await newStore())
      await ask('PUT', '/app/acme/portal', { name: 'Acme Events', color: '#ffcc00', logo: tinyLogo })
      /** Each path, with a text that shows when the page has its data. */
      const pages: Readonly<Record<string, string>> = {
        '/portal': '/main',
        '/portal/new': 'Requests per second',
        [`/portal/endpoint/${main.id}`]: 'video.trending',
        [`/portal/endpoint/${main.id}?view=settings`]: 'Save changes',
        [`/portal/endpoint/${main.id}?view=signature`]: 'timingSafeEqual',
        '/portal/messages': 'order-7',
        '/portal/messages?status=fail': 'Failed',
        [`/portal/message/${message.id}`]: '<script>alert(1)</script>',
        '/portal/events': 'An invoice was paid.',
        '/portal/events/video.trending': 'version 1',
        '/portal/nowhere': 'There is no such page',
      }
      const page = await enter()
      for (const [path, text] of Object.entries(pages)) {
        await page.goto(`${url}${path}`)
        await page.sees(text)
        await page.sees('Acme Events')
        // How a page looks does not depend on the store.
        const checks = name === 'SQLite' ? 'layout and axe' : 'layout'
        assert.deepEqual(await page.problems(checks), [], path)
        assert.deepEqual(page.complaints, [], path)
      }
      await page.until("document.title === 'Not found · Acme Events'")
      await page.until("document.querySelector('.portal-brand img').naturalWidth > 0")
    })

    test('adds an endpoint step by step, tested before it is saved with the secret that it will have', async (t) => {
      const { ask, enter, received, target, sluice } = await openPortal(t, await newStore())
      const page = await enter()
      await page.press('Add endpoint')
      await page.fill('url', `${target}/broken`)
      await page.press('Send test')
      await page.sees('It did not work.')
      await page.sees('It answered 500')
      await page.fill('url', `${target}/new`)
      await page.press('Send test')
      await page.sees('It works.')
      assert.equal((await ask('GET', '/app/acme/endpoint')).data.length, 3, 'a test saved something')

      await page.press('Selected events')
      await page.press('Add endpoint', 'footer')
      await page.sees('Select at least one event type')
      await page.sees('An invoice was paid.')
      await page.evaluate('document.querySelector("input[value=\'invoice.paid\']").click()')
      await page.fill('patterns', 'order.*')
      await page.fill('description', 'Billing')
      await page.fill('throttleRate', '20')
      await page.press('Show')
      const secret = await page.evaluate("document.querySelector('.secret code').innerText")
      await page.press('Add endpoint', 'footer')
      await page.sees('The endpoint is added.')
      await page.sees('Active')
      const { data } = await ask('GET', '/app/acme/endpoint')
      const made = data.find(({ description }: { description: string }) => description === 'Billing')
      assert.deepEqual(
        [made.url, made.eventTypes.sort(), made.throttleRate],
        [`${target}/new`, ['invoice.paid', 'order.*'], 20],
      )
      assert.equal((await ask('GET', `/app/acme/endpoint/${made.id}/secret`)).key, secret)

      const before = received.length
      await sluice.publish('acme', { eventType: 'invoice.paid', payload: '{"invoice":17}' })
      await eventually('it was delivered', () => received.slice(before).includes('{"invoice":17}'))
      await page.sees('200')
      assert.deepEqual(page.complaints, [])
    })

    test('pauses, resumes, tests, changes, disables, replays and deletes an endpoint', async (t) => {
      const { ask, enter, received, main, target } = await openPortal(t, await newStore())
      const page = await enter(`/portal/endpoint/${main.id}`)
      await page.press('Pause')
      await page.sees('Paused. New messages wait.')
      await page.press('Resume')
      await page.sees('Resumed.')

      let before = received.length
      await page.press('Send test event')
      await page.press('Send', 'dialog')
      await page.sees('The test event is on its way.')
      await eventually('the test event arrived', () => received.length > before)

      before = received.length
      await page.press('More actions')
      await page.press('Send again since…', '.menu')
      await page.press('All', 'dialog')
      await page.press('Send again', 'dialog')
      await page.sees('Finished')
      await page.press('Close', 'dialog footer')
      await page.sees('Sending again')
      await eventually('both messages arrived again', () => received.length >= before + 2)

      await page.press('Settings')
      await page.fill('description', 'Changed')
      await page.fill('url', 'nonsense')
      await page.press('Save changes')
      await page.until("document.querySelector('[name=url]').getAttribute('aria-invalid') === 'true'")
      await page.fill('url', `${target}/moved`)
      await page.press('Save changes')
      await page.sees('Saved.')
      const changed = await ask('GET', '/app/acme/endpoint/main')
      assert.deepEqual([changed.url, changed.description, changed.eventTypes], [`${target}/moved`, 'Changed', null])

      await page.press('More actions')
      await page.press('Disable', '.menu')
      await page.sees('Disabled.')
      await page.press('More actions')
      await page.press('Enable', '.menu')
      await page.sees('Enabled.')
      await page.press('More actions')
      await page.press('Delete…', '.menu')
      await page.press('Cancel', 'dialog')
      await page.press('More actions')
      await page.press('Delete…', '.menu')
      await page.press('Delete', 'dialog')
      await page.until("location.pathname === '/portal'")
      assert.equal((await ask('GET', '/app/acme/endpoint')).data.length, 2)
      // The browser logs the refusal of the wrong URL by itself.
      assert.deepEqual(
        page.complaints.filter((complaint) => !complaint.includes('status of 422')),
        [],
      )
    })

    test('takes credentials for an endpoint, and shows no secret of them', async (t) => {
      const { ask, enter, main } = await openPortal(t, await newStore())
      const page = await enter(`/portal/endpoint/${main.id}?view=settings`)
      await page.press('Set credentials…')
      await page.press('User and password', 'dialog')
      await page.fill('username', 'sluice')
      await page.fill('password', 'canary-password')
      await page.press('Save', 'dialog')
      await page.sees('Change credentials…')
      assert.equal((await ask('GET', `/app/acme/endpoint/${main.id}`)).auth.username, 'sluice')
      assert.equal(await page.evaluate("document.documentElement.outerHTML.includes('canary')"), false)
      assert.deepEqual(page.complaints, [])
    })

    test('shows the secret after a press, rotates it, and has code in eight languages with the names of the headers', async (t) => {
      const { ask, enter, main } = await openPortal(t, await newStore())
      await ask('PATCH', '/app/acme', { signatureHeaders: { signature: 'x-acme-signature', id: 'x-acme-id' } })
      const { key } = await ask('GET', '/app/acme/endpoint/main/secret')
      const page = await enter(`/portal/endpoint/${main.id}?view=signature`)
      await page.sees('x-acme-signature')
      assert.equal(await page.evaluate(`document.body.innerText.includes(${JSON.stringify(key)})`), false)
      await page.press('Show')
      await page.sees(key)
      await page.press('Rotate…')
      await page.press('Rotate', 'dialog')
      await page.sees('The old secret works until')
      await page.sees((await ask('GET', '/app/acme/endpoint/main/secret')).key)
      assert.notEqual((await ask('GET', '/app/acme/endpoint/main/secret')).key, key)
      await page.press('Close', 'dialog')
      await page.seesNot(key)

      const languages = { Node: 'timingSafeEqual', Python: 'def verify', Go: 'func Verify', Ruby: 'OpenSSL::HMAC' }
      const others = { PHP: 'hash_equals', Java: 'final class Webhook', Kotlin: 'fun verify', 'C#': 'HMACSHA256' }
      for (const [language, code] of Object.entries({ ...languages, ...others })) {
        await page.press(language, '.languages')
        await page.sees(code)
        const shown = String(await page.evaluate("document.querySelector('.code-block pre').innerText"))
        assert.match(shown, /x-acme-signature/, language)
        assert.doesNotMatch(shown, /webhook-(id|signature)/, language)
      }
      assert.deepEqual(page.complaints, [])
    })

    test('lists messages by status, event type and time, shows attempts with their answers, and sends again', async (t) => {
      const { ask, enter, url, sluice, received, message, main } = await openPortal(t, await newStore())
      await ask('POST', '/app/acme/endpoint/paused/resume')
      await sluice.publish('acme', { eventType: 'invoice.paid', payload: '{"invoice":18}' })
      await eventually('both messages died at the broken endpoint', async () => {
        const { data } = await ask('GET', '/dead')
        return data.length === 2
      })
      const page = await enter('/portal/messages')
      await page.sees('Failed 1 of 3')
      const shown = () =>
        page.evaluate("[...document.querySelectorAll('.tbody .tr')].map((row) => row.innerText.split('\\n')[0]).join()")
      await page.until("document.querySelectorAll('.tbody .tr').length === 2")
      assert.equal(await shown(), 'invoice.paid,video.trending')
      await page.fill('event', 'video.trending')
      await page.until("document.querySelectorAll('.tbody .tr').length === 1")
      await page.fill('hours', '1')
      await page.press('Waiting')
      await page.sees('No message matches')
      await page.press('Failed')
      await page.sees('video.trending')
      const before = received.length
      await page.press('Send failed again…')
      await page.sees('1 dead letter, as fast')
      await page.press('Send 1 again', 'dialog')
      await page.sees('1 queued again.')
      await eventually('the failed one was sent again', () => received.length > before)
      await page.fill('id', 'order-7')
      await page.evaluate("document.querySelector('[name=id]').form.requestSubmit()")
      await page.until(`location.pathname === '/portal/message/${message.id}'`)
      await page.sees('"views": 1.0')
      await page.sees('"<script>alert(1)</script>"')
      await page.sees('The receiver answered 500.')
      await page.evaluate(
        "[...document.querySelectorAll('button.attempt')].find((each) => each.innerText.includes('500')).click()",
      )
      await page.sees('<b>broken</b>')
      await page.sees('The same bytes with each attempt.')
      assert.deepEqual(await page.accessibilityProblems(), [])
      await page.press('Close', 'dialog')
      const again = received.length
      await page.press('Resend')
      await page.sees('It is sent again.')
      await eventually('it arrived again', () => received.length > again)

      await page.goto(`${url}/portal/endpoint/${main.id}`)
      await page.sees('video.trending')
      await page.press('Failed')
      await page.sees('No attempts')
      await page.press('All')
      await page.sees('video.trending')
      await page.evaluate("document.querySelector('.tbody .tr a').click()")
      await page.sees('The same bytes with each attempt.')
      assert.deepEqual(page.complaints, [])
    })
  })
}

describe('a link to the portal', { skip }, () => {
  test('that is read-only shows everything, and no button that changes anything', async (t) => {
    const { url, enter, main, message } = await openPortal(t)
    const page = await enter('/portal', { readOnly: true }, 390)
    const changing = /add|pause|resume|send|disable|enable|delete|rotate|secret|save|resend|replay|more actions/i
    const pages: Readonly<Record<string, string>> = {
      '/portal': '/main',
      '/portal/new': 'This link may only look',
      [`/portal/endpoint/${main.id}`]: 'video.trending',
      [`/portal/endpoint/${main.id}?view=settings`]: 'This link may only look.',
      [`/portal/endpoint/${main.id}?view=signature`]: 'timingSafeEqual',
      '/portal/messages?status=fail': 'video.trending',
      [`/portal/message/${message.id}`]: '500',
    }
    for (const [path, text] of Object.entries(pages)) {
      await page.goto(`${url}${path}`)
      await page.sees(text)
      const labels = (await page.evaluate(
        "[...document.querySelectorAll('button, a.button')].map((each) => each.ariaLabel || each.innerText)",
      )) as string[]
      assert.deepEqual(
        labels.filter((label) => changing.test(label)),
        [],
        path,
      )
    }
    assert.deepEqual(page.complaints, [])
  })

  test('leaves no token in the address bar, and logging out ends its session', async (t) => {
    const { url, enter, ask } = await openPortal(t)
    const page = await enter()
    assert.equal(await page.evaluate('location.hash'), '')
    assert.equal(await page.evaluate('document.cookie'), '')
    assert.equal((await ask('GET', '/auth/session')).data.length, 1)
    await page.press('Log out')
    await page.sees('Open this page with the link')
    assert.equal((await ask('GET', '/auth/session')).data.length, 0)
    await page.goto(`${url}/portal/messages`)
    await page.sees('Open this page with the link')
    // A request that was under way may be refused, which the browser logs by itself.
    assert.deepEqual(
      page.complaints.filter((complaint) => !complaint.includes('status of 401')),
      [],
    )
  })

  test('that has ended says so, also when it ends while the portal is open', async (t) => {
    const { url, enter, ask, app } = await openPortal(t)
    const page = await enter()
    await ask('POST', '/auth/app/acme/expire-all', {})
    // The open page asks again by itself, and a press makes it ask at once.
    await page.evaluate("[...document.querySelectorAll('a')].find((each) => each.innerText === 'Messages')?.click()")
    await page.sees('This link has expired')
    await page.goto('about:blank')
    await page.goto(`${url}/portal#app=${app.id}&token=appsk_ended`)
    await page.sees('This link has expired')
  })

  test('of another application asks before it takes the place of the one that is open', async (t) => {
    const { enter, ask, linkTo } = await openPortal(t)
    await ask('POST', '/app', { name: 'Stranger', uid: 'stranger' })
    const page = await enter()
    const strange = await linkTo('stranger')
    await page.goto(strange)
    await page.sees('The link opens another one')
    assert.equal(await page.evaluate('location.hash'), '', 'the token stays in the address bar')
    await page.press('Stay')
    await page.sees('/main')
    await page.goto(strange)
    await page.press('Open the other')
    await page.sees('Stranger')
    await page.sees('No endpoints yet')
    assert.deepEqual(page.complaints, [])
  })

  test('works in a frame of an allowed origin with its token alone, and not in a frame of another', async (t) => {
    let inside = ''
    const host = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end(`<iframe width="900" height="600" src="${inside}">`)
    })
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
    atEnd(t, () => {
      host.closeAllConnections()
      host.close()
    })
    const { port } = host.address() as AddressInfo
    const allowed = `http://127.0.0.1:${port}`
    const { ask, linkTo } = await openPortal(t, undefined, { portalFrameAncestors: [allowed] })
    inside = await linkTo('acme')
    const page = await openPage(t)
    await page.goto(allowed)
    await eventually('the frame shows the endpoints', async () => (await page.frameText()).includes('/main'))
    assert.deepEqual((await ask('GET', '/auth/session')).data, [], 'a framed portal started a session')
    assert.deepEqual(page.complaints, [])
    await page.goto(`http://localhost:${port}`)
    await eventually('the browser refused the frame', () =>
      page.complaints.some((complaint) => complaint.includes('frame-ancestors')),
    )
  })

  test('is used with the keyboard alone', async (t) => {
    const { enter, ask, target } = await openPortal(t)
    const page = await enter()
    const focused = "(document.activeElement.name || document.activeElement.innerText || '')"
    const tabTo = async (name: string) => {
      for (let i = 0; i < 60; i++) {
        await page.key('Tab')
        if ((await page.evaluate(focused)) === name) return
      }
      assert.fail(`the keyboard never reached ${name}`)
    }
    await tabTo('Add endpoint')
    await page.key('Enter')
    await page.sees('Which events')
    await tabTo('url')
    await page.type(`${target}/keys`)
    await tabTo('Send test')
    await page.key('Enter')
    await page.sees('It works.')
    await tabTo('Add endpoint')
    await page.key('Enter')
    await page.sees('The endpoint is added.')
    assert.equal((await ask('GET', '/app/acme/endpoint')).data.length, 4)
    assert.deepEqual(page.complaints, [])
  })
})

const tinyLogo = `data:image/svg+xml;base64,${Buffer.from(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8" width="8" height="8"><rect width="8" height="8"/></svg>',
).toString('base64')}`
