import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLong, Target } from './attack.ts'

const documents = {
  'small values': `webhooks: [${'{a: [1,{b: 2}]},'.repeat(14_000)}]`,
  'unfinished quotes': `webhooks:\n${'  - "x\n'.repeat(30_000)}`,
  aliases: `a: &a [1]\nb: [${'*a,'.repeat(60_000)}]`,
}

for (const [name, specRaw] of Object.entries(documents)) {
  test(`an import of YAML with ${name} is parsed apart from everybody else`, async (t) => {
    const target = await Target.start(t, 'sqlite')
    await target.measure(`yaml: ${name}`, async () => {
      const imports = Array.from({ length: isLong ? 8 : 2 }, () =>
        target.call('POST', '/event-type/import/openapi', { body: { specRaw, dryRun: true } }),
      )
      for (const { status, text } of await Promise.all(imports)) assert.ok(status === 200 || status === 422, text)
    })
  })
}
