import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { Client } from '../e2e/client.ts'
import { sqlitePlace } from '../e2e/place.ts'
import { Program } from '../e2e/program.ts'
import { isLong, reportLine } from './attack.ts'

const rounds = isLong ? 5 : 1
const messages = isLong ? 200 : 24

// Before the file had a mark, each round lost all of its messages, and the start after it exited with 0 and no line.
test('a cron job that removes the log of a killed server: the next start says so, and accepts nothing', async (t) => {
  const place = await sqlitePlace(t)
  const { path } = place.files
  let refused = 0
  for (let round = 0; round < rounds; round++) {
    const server = await Program.start(t, 'serve', place.store)
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    const app = `app-${round}`
    await client.createApplication(app)
    for (let i = 0; i < messages; i++) await client.publish(app, 'x', Buffer.from('{}'))
    await server.kill()
    for (const end of round % 2 === 0 ? ['-wal'] : ['-wal', '-shm', '-owner']) rmSync(`${path}${end}`, { force: true })
    for (const command of ['serve', 'drain', 'migrate']) {
      const { exit, logged, printed } = await Program.run(t, command, place.store)
      assert.equal(exit.code, 1, `${command}: ${printed}`)
      assert.match(
        logged,
        /sluice\.db-wal, the write-ahead log of .* is missing .* run once: sluice migrate .*--accept-loss/,
      )
      refused++
    }
    const { exit, logged } = await Program.run(t, 'migrate', place.store, {}, { flags: ['--accept-loss'] })
    assert.equal(exit.code, 0, logged)
    assert.match(logged, /messages that were accepted into it are lost/)
  }
  const server = await Program.start(t, 'serve', place.store)
  server.terminate()
  await server.exited
  reportLine(t, { attack: 'a removed log', store: 'sqlite', rounds, starts: refused, refused })
})
