import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { eventually } from '../e2e/eventually.ts'
import { main, served, workplace } from './program.ts'

const run = promisify(execFile)

describe('completion', () => {
  test('teaches bash the commands, the subcommands and the flags of each', async () => {
    const place = workplace()
    const program = place.begin('completion bash')
    assert.equal(await program.ended, 0)
    const script = join(place.directory, 'completion.bash')
    writeFileSync(script, program.out)
    const expected: [words: string, completed: string][] = [
      ['end', 'endpoint'],
      ['endpoint re', 'resume'],
      ['endpoint rotate demo --gr', '--grace'],
      ['endpoints re', 'resume'],
      ['endpoints rotate demo --gr', '--grace'],
      ['schedules get demo a --ne', '--next'],
      ['send --event-', '--event-id'],
      ['serve --in-flight-', '--in-flight-per-app'],
    ]
    const lines = expected.map(([words]) => {
      return `COMP_WORDS=(sluice ${words}); COMP_CWORD=${words.split(' ').length}; COMPREPLY=(); _sluice; echo "\${COMPREPLY[@]}"`
    })
    const { stdout } = await run('bash', ['-c', `source '${script}'\n${lines.join('\n')}`])
    assert.deepEqual(
      stdout.trim().split('\n'),
      expected.map(([, completed]) => completed),
    )
  })

  test('completes names from the server in bash, and stays silent without one', async () => {
    const place = await served(workplace())
    await place.sluice('app create Acme --uid acme')
    await place.sluice('endpoint create acme https://example.com/ --uid main')
    await place.sluice('event-type create video.up Up')
    const script = join(place.directory, 'names.bash')
    writeFileSync(script, await place.sluice('completion bash'))
    const complete = async (env: Record<string, string>, ...words: string[]) => {
      const line = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _sluice; echo "\${COMPREPLY[@]}"`
      const sluice = `sluice() { '${process.execPath}' '${main}' "$@"; }`
      const options = { env: { ...process.env, ...env } }
      return (await run('bash', ['-c', `${sluice}; source '${script}'; ${line}`], options)).stdout.trim()
    }
    const completes = (words: string, name: string) =>
      // A completion gives the server 700 ms, which a busy machine may need for itself.
      eventually(
        `${words} is completed`,
        async () => (await complete(place.env, 'sluice', ...words.split(' '))) === name,
      )
    await completes('endpoint get ac', 'acme')
    await completes('endpoints show acme ma', 'main')
    await completes('event-type delete vid', 'video.up')
    assert.equal(await complete({ SLUICE_URL: 'http://127.0.0.1:1' }, 'sluice', 'endpoint', 'get', 'ac'), '')
  })

  for (const [shell, path] of [
    ['zsh', '/usr/bin/zsh'],
    ['fish', '/usr/bin/fish'],
  ] as const) {
    test(`gives ${shell} a script that it can read`, async (t) => {
      const place = workplace()
      const program = place.begin(`completion ${shell}`)
      assert.equal(await program.ended, 0)
      assert.match(program.out, /rotate.*replace the secret/)
      assert.match(
        program.out,
        shell === 'fish' ? /seen_subcommand_from endpoint endpoints/ : /'endpoint'\|'endpoints'\)/,
      )
      if (!existsSync(path)) return t.diagnostic(`no ${shell} here to read it`)
      const script = join(place.directory, 'completion')
      writeFileSync(script, program.out)
      await run(path, ['-n', script])
    })
  }

  test('knows no other shell', async () => {
    const program = workplace().begin('completion tcsh')
    assert.equal(await program.ended, 2)
    assert.match(program.err, /Allowed choices are bash, zsh, fish/)
  })
})
