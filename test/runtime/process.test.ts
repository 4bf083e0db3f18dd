import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

/** Runs a few lines in a process of their own, with the runtime's functions at hand. */
function run(lines: string) {
  const at = (file: string) => JSON.stringify(new URL(`../../src/runtime/${file}`, import.meta.url).href)
  const code = `
    import { exitOnBugs, exitWith } from ${at('process.ts')}
    import { openLog } from ${at('log.ts')}
    exitOnBugs(openLog({ logLevel: 'info', logFormat: null }))
    ${lines}`
  return spawnSync(process.execPath, ['--input-type=module-typescript', '-e', code], { encoding: 'utf8' })
}

const bugs = {
  'an exception that nobody caught': `setImmediate(() => { throw new Error('planted') })`,
  'a rejection that nobody handled': `Promise.reject(new Error('planted'))`,
  'a command that failed in a way nobody planned': `await exitWith(Promise.reject(new Error('planted')))`,
}
for (const [name, lines] of Object.entries(bugs)) {
  test(`${name} is logged as fatal and ends the process with 70`, () => {
    const { status, stderr } = run(`${lines}\nsetInterval(() => {}, 1000)`)
    assert.equal(status, 70, stderr)
    const [line = '', ...rest] = stderr.trim().split('\n')
    assert.deepEqual(rest, [])
    const { level, err } = JSON.parse(line)
    assert.deepEqual([level, err.message], [60, 'planted'])
  })
}

test('the process ends with the code of its command, whatever is still open', () => {
  assert.equal(run('setInterval(() => {}, 1000); await exitWith(Promise.resolve(3))').status, 3)
})
