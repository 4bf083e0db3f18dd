import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { runHere, served, type Workplace, workplace } from '../cli/program.ts'
import { readPage } from './pages.ts'
import { hasPrograms } from './shell.ts'

const run = promisify(execFile)

/** The commands for SQLite in backup.md: two ways to back up, and the two steps of restoring. */
function commands(): { readonly withSqlite: string; readonly withNode: string; readonly restore: string } {
  const [, section = ''] = readPage('docs/backup.md').text.split('\n## SQLite\n')
  const blocks = [...section.slice(0, section.indexOf('\n## ')).matchAll(/^( *)```console\n(.*?)^ *```$/gms)]
  const [withSqlite = '', withNode = '', moveAway = '', putBack = ''] = blocks.map(([, indent = '', code = '']) =>
    code.replace(new RegExp(`^${indent}`, 'gm'), ''),
  )
  return { withSqlite, withNode, restore: moveAway + putBack.replace('sluice serve\n', '') }
}

/** Runs commands of the page in a directory of its own, with Node 24 as `node`. */
async function shell({ directory }: Workplace, code: string): Promise<void> {
  const here = code.replaceAll('/backups', join(directory, 'backups')).replaceAll('/elsewhere', join(directory, 'else'))
  const node = `node() { ${JSON.stringify(process.execPath)} "$@"; }`
  await run('bash', ['-ec', `${node}\n${here}`], { cwd: directory })
}

for (const way of ['withSqlite', 'withNode'] as const) {
  const needs = way === 'withSqlite' ? ['bash', 'sqlite3'] : ['bash']
  const skip = hasPrograms(...needs) ? false : `needs ${needs.join(' and ')}`

  test(`a backup made as backup.md says (${way}) while Sluice runs brings everything back`, { skip }, async () => {
    const place = workplace()
    for (const folder of ['backups', 'else']) mkdirSync(join(place.directory, folder))
    const page = commands()
    const before = await served(place)
    await before.sluice('app create Acme --uid acme')
    await before.sluice('endpoint create acme http://127.0.0.1:9/hook --uid main')
    await before.sluice('endpoint pause acme main')
    await before.sluice('send acme a.b {} --event-id kept')
    const secret = await before.sluice('endpoint secret acme main')
    await shell(place, page[way])
    if (way === 'withNode') await shell(place, page.withSqlite.replace(/^sqlite3.*\n/m, ''))
    await before.sluice('send acme a.b {} --event-id late')
    before.server.stop('SIGTERM')
    assert.equal(await before.server.ended, 0)

    await shell(place, page.restore)
    const after = await served(place)
    assert.equal(await after.sluice('endpoint secret acme main'), secret)
    const messages = await after.json<{ eventId: string }[]>('messages acme')
    assert.deepEqual(
      messages.map(({ eventId }) => eventId),
      ['kept'],
    )
    const why = await runHere(['why', 'acme', 'kept', 'main'], place, after.env)
    assert.match(why.out, /^paused: /)
  })
}
