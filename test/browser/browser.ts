import { after, type TestContext } from 'node:test'
import { type Browser, type BrowserPage, newPage, startBrowser } from './chromium.ts'

export { type BrowserPage, hasBrowser } from './chromium.ts'

let shared: Promise<Browser> | undefined

after(async () => (await shared)?.close())

/** Opens a page in the browser that the tests of a file share. Each page has a tab, and with it a session, of its own. */
export async function openPage(t: TestContext, width = 1000): Promise<BrowserPage> {
  shared ??= startBrowser()
  const { page, close } = await newPage(await shared, width)
  t.after(close)
  return page
}
