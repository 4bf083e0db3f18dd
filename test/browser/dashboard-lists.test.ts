import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { openPage } from './browser.ts'
import { adminKey, openWorld, skip } from './dashboard.ts'

describe('signing in', { skip }, () => {
  test('a link signs in once; a key signs in; signing out ends it', async (t) => {
    const { signInLink, url } = await openWorld(t)
    const link = await signInLink()
    const page = await openPage(t, 1280)
    await page.goto(link)
    await page.sees('Needs attention')
    assert.equal(await page.evaluate('location.hash'), '', 'the token stays in the address bar')
    await page.press('Sign out')
    await page.sees('Sign in to Sluice')
    assert.deepEqual(await page.accessibilityProblems(), [])
    // Another address first: one that differs behind the # alone would not load the page again.
    await page.goto('about:blank')
    await page.goto(link)
    await page.sees('This link has been used, or has expired.')
    assert.equal(await page.evaluate('location.hash'), '')
    await page.goto(`${url}/settings`)
    await page.sees('Sign in to Sluice')
    await page.fill('key', 'sk_wrong')
    await page.press('Sign in')
    await page.until("document.querySelector('[role=alert]') !== null")
    await page.fill('key', adminKey)
    await page.press('Sign in')
    await page.sees('SLUICE_STORE')
  })

  test('a key that may only read gets no button that changes anything', async (t) => {
    const { ask, url, app, main } = await openWorld(t)
    const { token } = await ask('POST', '/api-key', { name: 'reader', scopes: ['read'] })
    const page = await openPage(t, 1280)
    await page.goto(url)
    await page.fill('key', token)
    await page.press('Sign in')
    await page.sees('Needs attention')
    const labels = async () =>
      String(
        await page.evaluate(
          "[...document.querySelectorAll('main button')].map((each) => each.innerText || each.ariaLabel).join()",
        ),
      )
    const change = /Pause|Resume|Send|Add|Save|Delete|Rotate|Enable|Revoke|Run|Import|Close circuit|Retry/
    for (const [path, text] of [
      ['/', 'Needs attention'],
      [`/app/${app.id}`, '/main'],
      [`/app/${app.id}/endpoint/${main.id}`, 'video.trending'],
      ['/dead', 'video.trending'],
      ['/schedules', 'daily'],
      ['/event-types', 'video.trending'],
    ] as const) {
      await page.goto(`${url}${path}`)
      await page.sees(text)
      assert.doesNotMatch(await labels(), change, path)
    }
  })
})

describe('the overview', { skip }, () => {
  test('shows live figures and attempts as they end, and a press on the button of a finding ends it', async (t) => {
    const { signedIn, sluice, ask } = await openWorld(t)
    const page = await signedIn()
    await page.sees('Live')
    await page.sees('deliveries wait for paused of acme'.replace('deliveries wait', 'delivery waits'))
    await sluice.publish('acme', { eventType: 'video.seen.live', payload: '{}' })
    await page.until("document.querySelector('.feed')?.innerText.includes('video.seen.live')")
    await page.press('Resume', '.troubles')
    await page.sees('Resumed.')
    assert.equal((await ask('GET', '/app/acme/endpoint/paused')).paused, false)
    await page.until("!document.querySelector('.troubles')?.innerText.includes('paused of acme')")
    await page.press('15 min')
    await page.until("document.querySelectorAll('.charts canvas').length === 2")
    assert.deepEqual(page.complaints, [])
  })
})

describe('dead letters', { skip }, () => {
  test('are selected and sent again, replayed at a pace, exported, imported and deleted', async (t) => {
    const { signedIn, ask, app, received } = await openWorld(t)
    const page = await signedIn('/dead')
    await page.sees('video.trending')
    const before = received.length
    await page.evaluate("document.querySelector('.tbody input[type=checkbox]').click()")
    await page.press('Replay 1…')
    await page.press('Send 1 again', 'dialog')
    await page.sees('1 queued again.')
    await eventually('it was tried again, and died again', async () => {
      return received.length > before && (await ask('GET', '/dead')).data.length === 1
    })
    await page.goto(`${await page.evaluate('location.origin')}/dead`)
    await page.press('Replay all…')
    await page.sees('1 dead letter, as fast as the limits of each endpoint allow.')
    await page.fill('perSecond', '50')
    await page.sees('1 dead letter, at most 50/s: about 20 ms.')
    await page.press('Send 1 again', 'dialog')
    await page.sees('Finished')
    await eventually('it died once more', async () => (await ask('GET', '/dead')).data.length === 1)

    await page.goto(`${await page.evaluate('location.origin')}/dead`)
    await page.sees('video.trending')
    const exported = String(await page.evaluate("fetch('/api/v1/dead/export').then((response) => response.text())"))
    assert.equal(exported.trim().split('\n').length, 1)
    await page.press('More actions')
    await page.press('Delete…', '.menu')
    await page.sees('Delete 1 dead letter?')
    await page.fill('typed', 'delete')
    await page.press('Delete', 'dialog')
    await page.sees('1 deleted.')
    await eventually('all are deleted', async () => (await ask('GET', '/dead')).data.length === 0)
    await page.goto(`${await page.evaluate('location.origin')}/dead?app=${app.id}`)
    await page.sees('No dead letter matches')
    await page.press('More actions')
    await page.press('Import…', '.menu')
    await page.evaluate(`{
      const files = new DataTransfer()
      files.items.add(new File([${JSON.stringify(exported)}], 'dead.jsonl'))
      document.querySelector('[name=file]').files = files.files
    }`)
    await page.press('Import', 'dialog')
    await page.sees('1 dead letter imported')
    await page.sees('video.trending')
    assert.deepEqual(page.complaints, [])
  })
})

describe('the lists of the server', { skip }, () => {
  test('finds an application among hundreds by the server, and picks it among dead letters', async (t) => {
    const { signedIn, ask, url } = await openWorld(t)
    for (let i = 0; i < 260; i++) await ask('POST', '/app', { name: `Tenant ${i}`, uid: `tenant-${i}` })
    // The newest of them all: a list that shows the oldest first has it behind its first page.
    const { id } = await ask('POST', '/app', { name: 'Zanzibar', uid: 'zz' })
    const page = await signedIn('/applications')
    await page.fill('search', 'zanzi')
    await page.sees('Zanzibar')
    await page.seesNot('Tenant 1')

    await page.goto(`${url}/dead`)
    await page.until("document.querySelector('[name=searchApplication]') !== null")
    await page.fill('searchApplication', 'ZANZ')
    await page.until(`document.querySelector('select[name=app] option[value=${id}]') !== null`)
    await page.evaluate(
      `(() => { const s = document.querySelector('select[name=app]'); s.value = '${id}'; s.dispatchEvent(new Event('change', { bubbles: true })) })()`,
    )
    await page.until(`location.search.includes('${id}')`)
    await page.fill('searchApplication', 'Tenant 25')
    await page.until(`document.querySelector('select[name=app]').value === '${id}'`)
    assert.deepEqual(page.complaints, [])
  })

  test('an application is added, changed, sent a message, given a portal link and deleted', async (t) => {
    const { signedIn, ask } = await openWorld(t)
    const page = await signedIn('/applications')
    await page.press('Add application')
    await page.fill('name', 'Globex')
    await page.fill('uid', 'globex')
    await page.press('Add', 'dialog')
    await page.sees('No endpoints yet')
    await page.press('Add endpoint')
    await page.fill('url', 'https://example.com/hook')
    await page.press('Add', 'dialog')
    await page.sees('example.com/hook')
    const { data } = await ask('GET', '/app/globex/endpoint')
    assert.equal(data.length, 1)
    await page.press('Globex')
    await page.press('Settings', '.segmented')
    await page.fill('throttleRate', '7')
    await page.press('Save changes')
    await page.sees('Settings saved.')
    assert.equal((await ask('GET', '/app/globex')).throttleRate, 7)
    await page.press('Send message')
    await page.fill('eventType', 'order.created')
    await page.fill('payload', '{"total": 12.50}')
    await page.press('Send', 'dialog')
    await page.sees('"total": 12.50')
    await page.press('Globex')
    await page.press('More actions')
    await page.press('Portal link…', '.menu')
    await page.press('Make a read-only link', 'dialog')
    await page.sees('/portal#')
    await page.press('Close', 'dialog')
    await page.press('More actions')
    await page.press('Delete…', '.menu')
    await page.fill('typed', 'globex')
    await page.press('Delete', 'dialog')
    await page.until("location.pathname === '/applications'")
    assert.deepEqual(
      (await ask('GET', '/app')).data.map(({ uid }: { uid: string }) => uid),
      ['acme'],
    )
    assert.deepEqual(page.complaints, [])
  })

  test('a schedule shows its next runs as it is written, and is added, paused, run, changed and deleted', async (t) => {
    const { signedIn, ask } = await openWorld(t)
    const page = await signedIn('/schedules')
    await page.press('Add schedule')
    await page.fill('cron', '30 6 * * *')
    await page.until("document.querySelectorAll('.preview li').length === 5")
    assert.deepEqual(await page.accessibilityProblems(), [])
    await page.fill('uid', 'nightly')
    await page.fill('eventType', 'report.due')
    await page.press('Add', 'dialog')
    await page.sees('It has not run yet')
    await page.press('Pause')
    await page.sees('Paused.')
    assert.equal((await ask('GET', '/app/acme/schedule/nightly')).paused, true)
    await page.press('Resume')
    await page.sees('Resumed.')
    await page.press('Run now')
    await page.sees('Published')
    await page.press('More actions')
    await page.press('Change…', '.menu')
    await page.fill('cron', '45 7 * * *')
    await page.press('Save', 'dialog')
    await page.sees('45 7 * * *')
    await page.press('More actions')
    await page.press('Delete…', '.menu')
    await page.press('Delete', 'dialog')
    await page.until("location.pathname === '/schedules'")
    await page.sees('daily')
    assert.equal((await ask('GET', '/app/acme/schedule')).data.length, 1)
    assert.deepEqual(page.complaints, [])
  })

  test('event types, keys, sessions and operational webhooks are added, changed and removed; the log verifies', async (t) => {
    const { signedIn, ask, url, target } = await openWorld(t)
    const page = await signedIn('/event-types')
    await page.press('Add event type')
    await page.fill('name', 'order.paid')
    await page.fill('description', 'An order was paid.')
    await page.press('Add', 'dialog')
    await page.sees('No schema')
    await page.press('Change')
    await page.fill('schemas', '{"1": {"type": "object"}}')
    await page.press('Save', 'dialog')
    await page.sees('version 1')
    await page.press('More actions')
    await page.press('Archive', '.menu')
    await page.sees('archived')
    await page.press('More actions')
    await page.press('Delete…', '.menu')
    await page.press('Delete', 'dialog')
    await page.until("location.pathname === '/event-types'")
    await page.seesNot('order.paid')

    await page.goto(`${url}/keys`)
    await page.press('Add key')
    await page.fill('name', 'billing')
    await page.press('Add', 'dialog')
    await page.sees('it is not shown again')
    await page.press('Done', 'dialog')
    await page.sees('billing')
    await page.press('Revoke')
    await page.press('Revoke', 'dialog')
    await page.sees('Revoked')
    const [{ revokedAt }] = (await ask('GET', '/api-key')).data
    assert.notEqual(revokedAt, null)
    await fetch(`${url}/api/v1/session`, { method: 'POST', headers: { authorization: `Bearer ${adminKey}` } })
    await page.goto(`${url}/keys`)
    await page.press('End all others')
    await page.sees('All other sessions are over.')
    await eventually('one session is left', async () => (await ask('GET', '/auth/session')).data.length === 1)

    await page.goto(`${url}/operational-webhooks`)
    await page.press('Add endpoint')
    await page.fill('url', `${target}/ops`)
    await page.press('Add', 'dialog')
    await page.sees('/ops')
    const actions = `Actions of ${target.replace('http://', '')}/ops`
    await page.press(actions)
    await page.press('Show the secret', '.menu')
    await page.sees('whsec_')
    await page.press('Close', 'dialog')
    await page.press(actions)
    await page.press('Change…', '.menu')
    await page.fill('description', 'Pager')
    await page.press('Save', 'dialog')
    await page.sees('Pager')
    await page.press(actions)
    await page.press('Delete…', '.menu')
    await page.press('Delete', 'dialog')
    await page.sees('No endpoints yet')

    await page.goto(`${url}/audit`)
    await page.press('Verify')
    await page.sees('The log is whole')
    await page.press('POST /operational-webhook/endpoint')
    await page.sees('Hash')
    assert.deepEqual(page.complaints, [])
  })
})

describe('the keyboard', { skip }, () => {
  test('Ctrl-K leads from an id, an eventId or a part of a URL to its page, without a mouse', async (t) => {
    const { signedIn, app, message, main, url } = await openWorld(t)
    const page = await signedIn()
    for (const [text, to] of [
      [message.id, `/app/${app.id}/msg/${message.id}`],
      ['order-7', `/app/${app.id}/msg/${message.id}`],
      ['/main', `/app/${app.id}/endpoint/${main.id}`],
      ['work', '/workers'],
    ] as const) {
      await page.key('k', { ctrl: true })
      await page.until("document.activeElement?.name === 'palette'")
      await page.type(text)
      await page.until(
        `document.querySelector('[role=option]') !== null && document.querySelector('.palette input').value === ${JSON.stringify(text)}`,
      )
      await page.until(`document.querySelector('[role=option] .note, [role=option][aria-selected=true]')?.closest('[role=option]').innerText.length > 0
        && (${JSON.stringify(to)} === '/workers' || document.querySelector('[role=option] .note') !== null)`)
      await page.key('Enter')
      await page.until(`location.pathname === ${JSON.stringify(to)}`)
    }
    await page.goto(`${url}/endpoints`)
    await page.sees('/main')
    await page.key('Tab')
    assert.equal(await page.evaluate('document.activeElement.innerText'), 'Skip to content')
    await page.key('Enter')
    await page.until("document.activeElement?.id === 'main'")
    // The application, search, sorts, then the rows: down moves between rows, enter opens one.
    for (let i = 0; i < 7; i++) await page.key('Tab')
    await page.until("document.activeElement?.closest('.tr') !== null")
    await page.key('ArrowDown')
    await page.key('Enter')
    await page.until("location.pathname.includes('/endpoint/')")
    assert.deepEqual(page.complaints, [])
  })

  test('a list of 10,000 rows keeps few of them in the page, and scrolls to its end', async (t) => {
    const { signedIn, sluice, app } = await openWorld(t)
    const quiet = await sluice.applications.create({ name: 'Quiet', uid: 'quiet' })
    assert.notEqual(quiet.id, app.id)
    for (let at = 0; at < 10_000; at += 500) {
      await Promise.all(
        Array.from({ length: 500 }, (_, i) =>
          sluice.publish('quiet', { eventType: 'row', eventId: `row-${at + i}`, payload: '{}' }),
        ),
      )
    }
    const page = await signedIn(`/app/${quiet.id}?view=messages`)
    await page.sees('row-')
    // Scrolls to the end again and again, until no more rows come.
    await page.evaluate(`(async () => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
      const rows = () => Number(document.querySelector('[role=table]').getAttribute('aria-rowcount'))
      while (rows() < 10_001) {
        scrollTo(0, document.documentElement.scrollHeight)
        await frame()
      }
    })()`)
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
    await page.until('document.querySelector(\'[aria-rowindex="10001"]\') !== null')
    const inPage = Number(await page.evaluate("document.querySelectorAll('.tbody .tr').length"))
    assert.ok(inPage < 80, `${inPage} rows are in the page`)
    await page.evaluate('scrollTo(0, 0)')
    await page.until('document.querySelector(\'[aria-rowindex="2"]\') !== null')
    assert.deepEqual(page.complaints, [])
  })
})

describe('views', { skip }, () => {
  test('a filter is saved from its page, listed in the side, changed and deleted', async (t) => {
    const { signedIn, ask } = await openWorld(t)
    const page = await signedIn('/dead?type=video.trending&reason=exhausted')
    await page.press('Save view…')
    await page.fill('name', 'Trends that died')
    await page.press('Save', 'dialog')
    await page.until("document.querySelector('.side [aria-label=Views]')?.innerText.includes('Trends that died')")
    const [view] = (await ask('GET', '/view')).data
    assert.deepEqual([view.of, view.reason, view.eventTypes], ['dead-letters', 'exhausted', ['video.trending']])
    assert.equal(
      await page.evaluate("document.querySelector('.side [aria-label=Views] [aria-current]')?.getAttribute('href')"),
      '/dead?reason=exhausted&type=video.trending',
    )
    await page.goto(`${await page.evaluate('location.origin')}/views`)
    await page.sees('Reason: exhausted')
    await page.press('Change')
    await page.fill('name', 'Trends')
    await page.press('Save', 'dialog')
    await page.until("document.querySelector('.side [aria-label=Views]')?.innerText.trim() === 'Trends'")
    await page.press('Delete')
    await page.press('Delete', 'dialog')
    await page.sees('No views yet')
    assert.deepEqual((await ask('GET', '/view')).data, [])
    assert.deepEqual(page.complaints, [])
  })
})
