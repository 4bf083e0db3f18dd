import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLong, Target } from './attack.ts'

const documents: Readonly<Record<string, string>> = {
  'small values': `webhooks: [${'{a: [1,{b: 2}]},'.repeat(14_000)}]`,
  'unfinished quotes': `webhooks:\n${'  - "x\n'.repeat(30_000)}`,
  aliases: `a: &a [1]\nb: [${'*a,'.repeat(60_000)}]`,
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
