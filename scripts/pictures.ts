import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startBrowser, Tab } from '../test/browser/chromium.ts'
import { buildUi } from './build-ui.ts'
import { openChaosLoad } from './chaos-load.ts'

/**
 * Takes the pictures of README and docs from a real server under a real load: `npm run pictures`. They go to docs/pictures.
 */
const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '150' }, to: { type: 'string', default: 'docs/pictures' } },
})

interface Picture {
  readonly name: string
  readonly path: string
  /** Text that the page shows once it is complete. */
  readonly shows: string
  readonly scheme?: 'light' | 'dark'
  readonly width?: number
  readonly height?: number
}

await buildUi()
const load = await openChaosLoad({ seed: 'pictures' })
const browser = await startBrowser()
try {
  console.log(`Publishing for ${values.seconds} s to ${load.url} …`)
  await load.publish(Number(values.seconds) * 1000)
  const publishing = new AbortController()
  // It ends with the server when a picture fails.
  const background = load.publish(600_000, publishing.signal).catch(() => {})
  const tab = await Tab.open(browser)
  const page = await tab.newPage(1280)
  await page.setScheme('light')
  await page.goto(load.signInLink)
  await page.sees('Overview')
  mkdirSync(values.to, { recursive: true })
  for (const { name, path, shows, scheme = 'light', width = 1280, height = 800 } of await pictures()) {
    await page.resize(width, height, 2)
    await page.setScheme(scheme)
    await page.goto(new URL(path, load.url).href)
    await page.sees(shows)
    // Charts and sparklines follow their page.
    await new Promise((resolve) => setTimeout(resolve, 3000))
    writeFileSync(join(values.to, `${name}.png`), await page.picture())
    console.log(`${name}.png`)
  }
  if (page.complaints.length > 0) throw new Error(`the browser complained: ${page.complaints.join(' ')}`)
  publishing.abort()
  await background
  await tab.close()
} finally {
  await browser.close()
  await load.stop()
}

async function pictures(): Promise<readonly Picture[]> {
  const { data } = (await load.ask('GET', '/app/acme/msg?limit=50')) as { data: { id: string }[] }
  const message = data.at(-1)?.id ?? ''
  const { url: portal } = (await load.ask('POST', '/auth/app-portal-access/acme', {})) as { url: string }
  return [
    { name: 'overview', path: '/?range=15m', shows: 'Needs attention' },
    { name: 'overview-dark', path: '/?range=15m', shows: 'Needs attention', scheme: 'dark' },
    { name: 'endpoints', path: '/endpoints?sort=waiting', shows: 'broken/acme' },
    { name: 'endpoint', path: '/app/acme/endpoint/acme-slow?range=15m', shows: 'slow/acme' },
    { name: 'message', path: `/app/acme/msg/${message}`, shows: message },
    { name: 'alerts', path: '/alerts', shows: 'Silences' },
    { name: 'reference', path: '/docs/reference#v1.message.create', shows: 'Publish a message' },
    { name: 'portal', path: portal, shows: 'Endpoints' },
  ]
}
