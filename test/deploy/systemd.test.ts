import assert from 'node:assert/strict'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { read, root, runTool, without, written } from './files.ts'

const units = written.filter((path) => path.endsWith('.service'))

test('the units have the same hardening', () => {
  const hardening = units.map((path) => {
    const text = read(path)
    return text.slice(text.indexOf('User=')).split('\n\n[Install]')[0]?.trim()
  })
  assert.equal(units.length, 3)
  assert.equal(new Set(hardening).size, 1)
})

test('the settings of one worker win over the common ones: systemd lets later files win', () => {
  const files = [...read('deploy/systemd/sluice-worker@.service').matchAll(/^EnvironmentFile=(\S+)$/gm)]
  assert.deepEqual(
    files.map(([, file]) => file),
    ['/etc/sluice/sluice.env', '-/etc/sluice/worker-%i.env'],
  )
})

test('systemd accepts the units, and rates their exposure below 2 of 10', { skip: without('systemd-analyze') }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-units-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const files = units.map((path) => {
    // An instance of the template, and a program that exists here.
    const file = join(folder, basename(path).replace('@.', '@1.'))
    writeFileSync(file, readFileSync(join(root, path), 'utf8').replace('/usr/local/bin/sluice', '/bin/true'))
    return file
  })
  const timer = join(folder, 'sluice-drain.timer')
  copyFileSync(join(root, 'deploy/systemd/sluice-drain.timer'), timer)
  assert.equal(runTool('systemd-analyze', ['verify', ...files, timer]), '')
  for (const file of files) runTool('systemd-analyze', ['security', '--offline=true', '--threshold=20', file])
})
