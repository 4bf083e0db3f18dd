import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { type Served, served, workplace } from './program.ts'

describe('erasing a person', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
  })

  test('by the program: export, erase, report, verify', async () => {
    const { sluice, json } = place
    await sluice('app create Acme --uid acme --subject-pointer /user/mail --subject-pointer /to/*/mail')
    assert.deepEqual((await json('app get acme')).subjectPointers, ['/user/mail', '/to/*/mail'])
    await sluice('endpoint create acme https://crm.example.com/ --uid crm')
    await sluice('endpoint pause acme crm')
    await sluice(['send', 'acme', 'x', '{"user":{"mail":"ann@example.com"}}'])
    await sluice(['send', 'acme', 'x', '{"to":[{"mail":"bob@example.com"},{"mail":"ann@example.com"}]}'])
    const who = '--app acme --subject ann@example.com'
    assert.equal(await sluice(`subject export ${who} --output ann.jsonl`), '2 messages written to ann.jsonl.\n')
    const lines = readFileSync(join(where.directory, 'ann.jsonl'), 'utf8').trim().split('\n')
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).type),
      ['message', 'delivery', 'message', 'delivery', 'end'],
    )
    assert.equal((await sluice(`subject export ${who}`)).trim().split('\n').length, 5)

    const shown = await sluice(`erase ${who}`)
    assert.match(shown, /messages erased +2\n/)
    assert.match(shown, /deliveries cancelled +2\n/)
    assert.doesNotMatch(shown, /ann@/)
    const [erasure] = await json<{ id: string }[]>('erase list acme')
    const id = erasure?.id ?? assert.fail('no erasure is listed')
    assert.match(await sluice('erase list acme'), /finished +2 scanned, 2 erased/)
    assert.match(await sluice(`erase status acme ${id}`), /state +finished/)
    const report = await sluice(`erase report acme ${id}`)
    assert.equal(JSON.parse(report).report.erased.messages, 2)
    const file = join(where.directory, 'report.json')
    writeFileSync(file, report)
    assert.match(await sluice('erase verify report.json'), /as this server signed it/)
    writeFileSync(file, report.replace('"messages": 2', '"messages": 3'))
    await assert.rejects(sluice('erase verify report.json'), /was changed/)
    writeFileSync(file, '{}')
    await assert.rejects(sluice('erase verify report.json'), /is no report/)
    await assert.rejects(sluice('erase verify nowhere.json'), /Cannot read nowhere.json: ENOENT/)
    await assert.rejects(sluice('erase --app acme'), /--subject/)
    assert.match(await sluice(`erase ${who} --waiting deliver-without --no-wait`), /^Started erasure qtask_/)
  })
})
