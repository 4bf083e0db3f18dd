import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildUi } from '../../scripts/build-ui.ts'
import { eventually } from '../e2e/eventually.ts'
import { sqlitePlace } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { openPage } from './browser.ts'
import { skip } from './dashboard.ts'

test('a page says since when a hung server and a killed one have not answered, and goes on when it answers', {
  skip,
}, async (t) => {
  await buildUi()
  const { store } = await sqlitePlace(t)
  const server = await Program.start(t, 'serve', store)
  const origin = new URL(server.api).origin
  const headers = { authorization: `Bearer ${apiKey}` }
  const link = await fetch(`${server.api}/auth/sign-in-link`, { method: 'POST', headers })
  const { url } = (await link.json()) as { url: string }
  const page = await openPage(t)
  await page.goto(url)
  const other = await openPage(t)
  const text = (from: typeof page) => from.evaluate("document.body?.innerText ?? ''") as Promise<string>
  await eventually('the page follows the server', async () => /\bLive\b/.test(await text(page)))
  await other.goto(`${origin}/`)
  await eventually('another window does, too', async () => /\bLive\b/.test(await text(other)))
  const silent = /No answer from the server since \d\d:\d\d:\d\d\. All figures are as of then\./

  server.process.kill('SIGSTOP')
  for (const each of [page, other]) await eventually('both say so', async () => silent.test(await text(each)))
  const greyed = await page.evaluate(`getComputedStyle(document.querySelector('main > .page')).filter`)
  assert.equal(greyed, 'grayscale(1)')
  server.process.kill('SIGCONT')
  for (const each of [page, other]) await eventually('both go on', async () => !silent.test(await text(each)))
  await eventually('the page follows the server again', async () => /\bLive\b/.test(await text(page)))

  await server.kill()
  await eventually('a killed server', async () => silent.test(await text(page)))
})
