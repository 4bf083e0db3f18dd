import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openPage } from './browser.ts'
import { openWorld, skip } from './dashboard.ts'

describe('the documentation under /docs', { skip }, () => {
  test('its pages are accessible and fit, in light and dark, wide and narrow', async (t) => {
    const { url } = await openWorld(t)
    const page = await openPage(t, 1280)
    for (const path of ['/docs', '/docs/flow-control', '/docs/no-such-page']) {
      await page.goto(`${url}${path}`)
      await page.until(`document.querySelector('#search input') !== null`)
      assert.deepEqual(await page.problems('layout and axe'), [], path)
    }
    // A page that is not there is an answer 404, about which the browser complains.
    assert.deepEqual(
      page.complaints.filter((each) => !each.includes('404')),
      [],
    )
  })

  test('a search leads to its page by the keyboard alone, and blocks of code are copied', async (t) => {
    const { url } = await openWorld(t)
    const page = await openPage(t, 1280)
    await page.goto(`${url}/docs`)
    await page.until(`document.querySelector('#search input') !== null`)
    await page.evaluate(`document.querySelector('#search input').focus()`)
    await page.type('jitter')
    await page.sees('found')
    await page.key('ArrowDown')
    await page.until(`document.activeElement?.closest('.found') !== null`)
    await page.key('Enter')
    await page.until(`location.pathname.startsWith('/docs/')`)
    await page.goto(`${url}/docs/tutorial`)
    await page.until(`document.querySelector('.copy') !== null`)
    assert.deepEqual(page.complaints, [])
  })
})
