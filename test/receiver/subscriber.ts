/**
 * A subscriber whose work is a row in its own SQLite file. At its fortieth message it kills itself, as CRASH says: `work`
 * in the middle of the work, `answer` after the work and before the answer, or never.
 *
 *     WEBHOOK_SECRET=… PORT=… CRASH=work node subscriber.ts FILE
 */
import { createServer } from 'node:http'
import { openReceiver } from '../../receiver/src/index.ts'
import { nodeHandler } from '../../receiver/src/node.ts'
import { sqliteTransaction } from '../../receiver/src/sqlite.ts'
import { openFile } from './stores.ts'

const { WEBHOOK_SECRET = '', PORT, CRASH } = process.env
const database = openFile(process.argv[2] as string)
database.exec('create table if not exists work (id text)')
let messages = 0

function crashAt(place: string): void {
  if (messages >= 40 && CRASH === place) process.kill(process.pid, 'SIGKILL')
}

const receiver = openReceiver({
  secret: WEBHOOK_SECRET,
  transaction: sqliteTransaction(database),
  handle(webhook, tx) {
    messages++
    tx.prepare('insert into work (id) values (?)').run(webhook.id)
    crashAt('work')
  },
})
const answer: typeof receiver.answer = async (read) => {
  const response = await receiver.answer(read)
  crashAt('answer')
  return response
}
createServer(nodeHandler({ ...receiver, answer })).listen(Number(PORT), '127.0.0.1', () => console.log('listening'))
