import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { type Served, served, workplace } from './program.ts'

describe('sluice alert', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
  })

  test('silences alerts, lists silences and ends them', async () => {
    const { sluice, json } = place
    assert.equal(await sluice('alert list'), 'No alerts.\n')
    const silenced = await sluice(['alert', 'silence', 'waiting', '--for', '2h', '--reason', 'a move'])
    const [, id = ''] = /^Silenced until .* sluice alert unsilence (slnc_\w+)$/m.exec(silenced) ?? []
    assert.match(await sluice('alert list'), new RegExp(`^${id} +waiting +all .* a move$`, 'm'))
    const { silences } = (await json('alert list')) as unknown as { silences: { from: string; until: string }[] }
    assert.equal(Date.parse(silences[0]?.until ?? '') - Date.parse(silences[0]?.from ?? ''), 7_200_000)
    assert.equal(await sluice(`alert unsilence ${id}`), `Ended ${id}.\n`)
    await sluice(`alert unsilence ${id}`, 4)
    assert.equal(await sluice('alert list'), 'No alerts.\n')
  })

  test('announces a test, which is listed', async () => {
    const { sluice } = place
    assert.match(await sluice('alert test'), /^Announced\. /)
    assert.match(await sluice('alert list --all'), /^test +(firing|resolved) +warning .*This is a test/m)
  })

  test('checks a file, and names every mistake with its line', async () => {
    const { sluice } = place
    const file = join(where.directory, 'alerts.yaml')
    writeFileSync(
      file,
      'defaults: false\nrules:\n  behind: { for: 5m }\nreceivers:\n  c: { type: slack, url: "https://x/" }\n',
    )
    assert.equal(await sluice(['alert', 'check', file]), 'Rules: behind.\nReceivers: c.\n')
    writeFileSync(file, 'rules:\n  behind: { fro: 5m }\n  waiting: { above: x }\n')
    const said = await sluice(['alert', 'check', file], 2)
    assert.match(said, /line 2: rules\.behind\.fro is unknown/)
    assert.match(said, /line 3: rules\.waiting\.above must be a number of deliveries/)
  })
})
