import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { checksums, sha256 } from '../../scripts/release/artefact.ts'
import { debianPackage } from '../../scripts/release/debian.ts'
import { billOfMaterials, formula, releaseNotes } from '../../scripts/release/texts.ts'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const missing = (program: string, line: string): string | false =>
  spawnSync(program, [line], { stdio: 'ignore' }).status === 0 ? false : `${program} is not installed`

let folder = ''
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-release-test-'))
})
after(() => rmSync(folder, { recursive: true }))

test('the notes of a release are the section of its version', () => {
  const changelog = '# Changelog\n\n## 0.2.0\n\nNew.\n\n## 0.1.0 – 2026-12-01\n\nFirst.\n'
  assert.equal(releaseNotes('0.2.0', changelog), 'New.')
  assert.equal(releaseNotes('0.1.0', changelog), 'First.')
  assert.throws(() => releaseNotes('0.3.0', changelog), /no section "## 0.3.0"/)
})

test('the bill of materials names each package of the program by its purl', () => {
  const bill = JSON.parse(
    billOfMaterials('1.2.3', [{ name: '@a/b', version: '4.5.6', licence: 'MIT', text: '' }], '24.0.0'),
  )
  assert.equal(bill.components.length, 2)
  assert.equal(bill.components[1].purl, 'pkg:npm/%40a/b@4.5.6')
})

test('the formula has a checksum for each platform that was built, and no other platform', () => {
  const download = { platform: 'linux-arm64', file: 'x.tar.gz', digest: 'd'.repeat(64) }
  const text = formula('1.2.3', 'https://example.com/v1.2.3', [download])
  assert.match(
    text,
    /on_linux do\n {4}on_arm do\n {6}url "https:\/\/example.com\/v1.2.3\/x.tar.gz"\n {6}sha256 "d{64}"/,
  )
  assert.doesNotMatch(text, /on_macos|on_intel/)
  const ruby = spawnSync('ruby', ['-c'], { input: text })
  if (ruby.error === undefined) assert.equal(ruby.status, 0, String(ruby.stderr))
})

test('the Debian package has program, units, user and settings that an upgrade keeps', {
  skip: missing('dpkg-deb', '--version'),
}, () => {
  const executable = join(folder, 'program')
  writeFileSync(executable, '#!/bin/sh\necho 1.2.3\n')
  const licences = join(root, 'LICENSE')
  const deb = debianPackage({ executable, licences, processor: 'arm64', version: '1.2.3', out: folder })
  const listed = execFileSync('dpkg-deb', ['--contents', deb], { encoding: 'utf8' })
  assert.match(listed, /-rwxr-xr-x root\/root .* \.\/usr\/bin\/sluice\n/)
  assert.match(listed, /-rw------- root\/root .* \.\/etc\/sluice\/sluice\.env\n/)
  assert.equal(execFileSync('dpkg-deb', ['--field', deb, 'Architecture'], { encoding: 'utf8' }).trim(), 'arm64')
  const place = join(folder, 'unpacked')
  execFileSync('dpkg-deb', ['--raw-extract', deb, place])
  assert.equal(readFileSync(join(place, 'DEBIAN/conffiles'), 'utf8'), '/etc/sluice/sluice.env\n')
  const unit = readFileSync(join(place, 'usr/lib/systemd/system/sluice.service'), 'utf8')
  assert.match(unit, /^ExecStart=\/usr\/bin\/sluice serve$/m)
  for (const script of ['postinst', 'prerm']) execFileSync('sh', ['-n', join(place, 'DEBIAN', script)])
})

describe('the install script', { skip: process.platform !== 'linux' ? 'its archive here is for Linux' : false }, () => {
  let from = ''
  let script = ''
  const served = new Map<string, Buffer>()
  const server = createServer((request, response) => {
    const file = served.get(request.url?.slice(1) ?? '')
    response.writeHead(file === undefined ? 404 : 200).end(file)
  })

  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    from = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    script = join(folder, 'install.sh')
    writeFileSync(script, readFileSync(join(root, 'deploy/install.sh'), 'utf8').replace('@VERSION@', '1.2.3'))
    const program = join(folder, 'sluice')
    writeFileSync(program, '#!/bin/sh\necho 1.2.3\n')
    chmodSync(program, 0o755)
    const archive = join(folder, `sluice-1.2.3-linux-${process.arch}.tar.gz`)
    execFileSync('tar', ['-czf', archive, '-C', folder, 'sluice'])
    served.set(`sluice-1.2.3-linux-${process.arch}.tar.gz`, readFileSync(archive))
    served.set('SHA256SUMS', Buffer.from(checksums([archive])))
    assert.match(checksums([archive]), new RegExp(`^${sha256(archive)} {2}sluice-1.2.3`))
  })
  after(() => server.close())

  const install = (to: string) =>
    run('sh', [script, '--to', to], { env: { ...process.env, INSTALL_FROM: from } }).catch(
      (error) => error as { stdout: string; stderr: string; code: number },
    )

  test('installs a program whose checksum is right, also over one that is there', async () => {
    const to = join(folder, 'bin')
    mkdirSync(to)
    writeFileSync(join(to, 'sluice'), 'older')
    const { stdout } = await install(to)
    assert.match(stdout, /Sluice 1\.2\.3 is installed/)
    assert.equal((await run(join(to, 'sluice'))).stdout, '1.2.3\n')
  })

  test('installs nothing when a byte of the archive is another', async () => {
    const name = `sluice-1.2.3-linux-${process.arch}.tar.gz`
    const right = served.get(name) ?? Buffer.alloc(0)
    served.set(name, Buffer.concat([right, Buffer.from([0])]))
    const to = join(folder, 'other')
    const { stderr, code } = (await install(to)) as { stderr: string; code: number }
    served.set(name, right)
    assert.equal(code, 1)
    assert.match(stderr, /the checksum of .* is wrong; nothing was installed/)
    assert.equal(existsSync(to), false)
  })

  test('names an argument that it does not know', async () => {
    const { status, stderr } = spawnSync('sh', [script, '--prefix', '/'], { encoding: 'utf8' })
    assert.equal(status, 1)
    assert.match(stderr, /unknown argument --prefix/)
  })
})
