import { after, type TestContext } from 'node:test'
import { type Browser, type BrowserPage, startBrowser, Tab } from './chromium.ts'

export { type BrowserPage, hasBrowser } from './chromium.ts'

let shared: Promise<Browser> | undefined
/** Tabs that a test has left: a tab costs as much as two pages. */
const free: Tab[] = []

after(async () => (await shared)?.close())

/**
 * Opens a page in the browser that the tests of a process share. The pages of one test have a tab each, and share their
 * cookies. The next test finds nothing of them.
 */
export async function openPage(t: TestContext, width = 1000): Promise<BrowserPage> {
  shared ??= startBrowser()
  const tab = free.pop() ?? (await Tab.open(await shared))
  const page = await tab.newPage(width)
  t.after(async () => {
    await page.end()
    free.push(tab)
  })
  return page
}
