import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLong, Target } from './attack.ts'

/** Each takes half a second to parse; twice that in the long form. */
const times = isLong ? 2 : 1
const documents: Readonly<Record<string, string>> = {
  'small values': `webhooks: [${'{a: [1,{b: 2}]},'.repeat(7000 * times)}]`,
  'unfinished quotes': `webhooks:\n${'  - "x\n'.repeat(15_000 * times)}`,
  aliases: `a: &a [1]\nb: [${'*a,'.repeat(30_000 * times)}]`,
}

test('imports of YAML that are slow to parse make no other client wait', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const imports = async (names: readonly string[]) => {
    const asked = names.map(async (name) => {
      const body = { specRaw: documents[name], dryRun: true }
      const { status, text } = await target.call('POST', '/event-type/import/openapi', { body })
      assert.ok(status === 200 || status === 422, `${name}: ${text}`)
    })
    await Promise.all(asked)
  }
  const names = Object.keys(documents)
  await target.measure('yaml: all at once', () => imports(names))
  if (!isLong) return
  for (const name of names) await target.measure(`yaml: ${name}`, () => imports(Array.from({ length: 8 }, () => name)))
})
