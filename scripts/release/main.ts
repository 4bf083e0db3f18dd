import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { buildExe, exeProblem } from '../build-exe.ts'
import type { Licensed } from '../licences.ts'
import { type Artefact, built, checksums, notBuilt, sha256, tableOf } from './artefact.ts'
import { debianPackage } from './debian.ts'
import { run, works } from './run.ts'
import { billOfMaterials, type Download, formula, releaseNotes } from './texts.ts'

/**
 * Builds the files of a release and prints them as a table.
 *
 *     npm run release -- --dry-run              all that this machine can build, and checks of the rest
 *     npm run release -- --only executable      the executable of this machine, for a job of the workflow
 *     npm run release -- --from DIRECTORY       the rest, around executables that other machines built
 *
 * The command publishes nothing: .github/workflows/release.yml does, after a person started it.
 */

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const { version } = JSON.parse(read('package.json')) as { version: string }
const base = `https://github.com/OWNER/sluice/releases/download/v${version}`
const here = `${process.platform}-${process.arch}`

const { values } = parseArgs({
  options: {
    'dry-run': { type: 'boolean', default: false },
    only: { type: 'string' },
    from: { type: 'string' },
    out: { type: 'string', default: join(root, 'release') },
  },
})
if (!values['dry-run'] && values.only === undefined && values.from === undefined) {
  console.error(
    'Say --dry-run, --only executable or --from DIRECTORY. Publishing is done by .github/workflows/release.yml.',
  )
  process.exit(2)
}
const out = resolve(values.out)
rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })

const problems = disagreements()
for (const problem of problems) console.error(`! ${problem}`)
if (!values['dry-run'] && problems.length > 0) process.exit(1)

const artefacts: Artefact[] = []
const executables = values.from === undefined ? await buildExecutables() : collected(values.from)
if (values.only === undefined) {
  artefacts.push(...packages(), ...debianPackages(), ...chart(), image(), installer())
  const formulaFile = join(out, 'sluice.rb')
  writeFileSync(formulaFile, formula(version, base, executables))
  artefacts.push(built(formulaFile, `for ${executables.map(({ platform }) => platform).join(', ')}`))
  const notes = join(out, 'notes.md')
  writeFileSync(notes, `${releaseNotes(version)}\n`)
  artefacts.push(built(notes, 'the section of CHANGELOG.md'))
  const sums = join(out, 'SHA256SUMS')
  writeFileSync(sums, checksums(artefacts.flatMap(({ file }) => file ?? [])))
  artefacts.push(built(sums, 'of all files above', 'attested by the workflow'))
}
console.log(tableOf(artefacts))

/** Where two files name different versions, and placeholders that are still there. */
function disagreements(): string[] {
  const receiver = JSON.parse(read('receiver/package.json')) as { version: string }
  const chartVersions = [...read('deploy/helm/sluice/Chart.yaml').matchAll(/^(?:version|appVersion): (.*)$/gm)]
  const found: string[] = []
  if (receiver.version !== version)
    found.push(`receiver/package.json has ${receiver.version}, package.json ${version}.`)
  for (const [line] of chartVersions) if (!line.endsWith(` ${version}`)) found.push(`Chart.yaml has "${line}".`)
  if (read('package.json').includes('OWNER/')) found.push('OWNER is a placeholder: git grep -l OWNER lists its places.')
  if (read('CHANGELOG.md').includes(`## ${version} – unreleased`))
    found.push(`CHANGELOG.md calls ${version} unreleased.`)
  return found
}

/** The executable of this machine, and on Linux that of the other processor, whose Node npm has. */
async function buildExecutables(): Promise<Download[]> {
  const problem = exeProblem()
  if (problem !== undefined) {
    artefacts.push(notBuilt(archiveName(here), problem))
    return []
  }
  const downloads = [await executable(here)]
  if (values.only === 'executable') return downloads
  const other = process.arch === 'x64' ? 'arm64' : 'x64'
  downloads.push(await executable(`linux-${other}`, nodeFor(other)))
  artefacts.push(
    notBuilt(archiveName('linux-x64-musl'), 'npm has no Node for musl; a job in an Alpine container builds it'),
  )
  artefacts.push(notBuilt(archiveName('darwin-arm64'), 'a job on macOS builds and signs it'))
  return downloads
}

async function executable(platform: string, node?: string): Promise<Download> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-release-'))
  try {
    const program = join(folder, 'sluice')
    const inside: Licensed[] = await buildExe(program, node)
    cpSync(`${program}-licenses`, join(folder, 'THIRD-PARTY-LICENSES'))
    cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
    const archive = join(out, archiveName(platform))
    run('tar', ['-czf', archive, '-C', folder, 'sluice', 'LICENSE', 'THIRD-PARTY-LICENSES'], root)
    if (node === undefined) {
      const bill = join(out, `sluice-${version}.cdx.json`)
      writeFileSync(bill, billOfMaterials(version, inside, process.versions.node))
      artefacts.push(built(bill, `${inside.length} packages and Node, as CycloneDX`))
    }
    artefacts.push(built(archive, started(program, platform)))
    return { platform, file: basename(archive), digest: sha256(archive) }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The program says its version: by itself, or in an emulator of its processor where one is installed. */
function started(program: string, platform: string): string {
  const emulated = platform === here ? undefined : `qemu-${platform === 'linux-arm64' ? 'aarch64' : 'x86_64'}`
  if (emulated !== undefined && !works(emulated, ['--version'])) return `built, not started: ${emulated} is missing`
  const libraries = `/usr/${platform === 'linux-arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`
  const line = ['-L', libraries, program, '--version']
  const printed = emulated === undefined ? run(program, ['--version'], out) : run(emulated, line, out)
  if (printed.trim() !== version) throw new Error(`The executable says ${printed}.`)
  return emulated === undefined ? 'built and started' : `built around the Node of npm, started by ${emulated}`
}

/** Archives that jobs of the workflow built. */
function collected(folder: string): Download[] {
  return globSync('**/sluice-*.{tar.gz,cdx.json}', { cwd: folder }).flatMap((path) => {
    const file = join(out, basename(path))
    cpSync(join(folder, path), file)
    artefacts.push(built(file, 'built by a job of its platform'))
    const [, platform] = new RegExp(`^sluice-${version}-(.*)\\.tar\\.gz$`).exec(basename(path)) ?? []
    return platform === undefined ? [] : [{ platform, file: basename(file), digest: sha256(file) }]
  })
}

function archiveName(platform: string): string {
  return `sluice-${version}-${platform}.tar.gz`
}

/** The program of Node for another processor, in the version that runs this script. */
function nodeFor(processor: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-node-'))
  process.on('exit', () => rmSync(folder, { recursive: true }))
  const name = `node-linux-${processor}`
  run('npm', ['pack', '--silent', `${name}@${process.versions.node}`, '--pack-destination', folder], folder)
  run('tar', ['-xzf', join(folder, `${name}-${process.versions.node}.tgz`), '-C', folder], folder)
  return join(folder, 'package/bin/node')
}

function packages(): Artefact[] {
  return [
    ['', 'sluice'],
    ['receiver', '@sluice/receiver'],
  ].map(([folder = '', name = '']) => {
    const cwd = join(root, folder)
    const printed = run('npm', ['pack', '--json', '--pack-destination', out], cwd)
    // The build may print something first.
    const [{ filename, entryCount }] = JSON.parse(printed.slice(printed.indexOf('[\n'))) as [
      { filename: string; entryCount: number },
    ]
    run('npm', ['publish', '--dry-run', '--ignore-scripts', join(out, filename)], cwd)
    return built(
      join(out, filename),
      `${entryCount} files; publish of ${name} tried dry`,
      'provenance of npm, by the workflow',
    )
  })
}

function debianPackages(): Artefact[] {
  if (!works('dpkg-deb', ['--version'])) return [notBuilt(`sluice_${version}_*.deb`, 'dpkg-deb is missing')]
  return executables.flatMap(({ platform, file }) => {
    const [, processor] = /^linux-(x64|arm64)$/.exec(platform) ?? []
    if (processor === undefined) return []
    const folder = mkdtempSync(join(tmpdir(), 'sluice-release-'))
    try {
      run('tar', ['-xzf', join(out, file), '-C', folder], root)
      const licences = join(folder, 'THIRD-PARTY-LICENSES')
      const deb = debianPackage({ executable: join(folder, 'sluice'), licences, processor, version, out })
      return [built(deb, 'dpkg-deb, with units, user and settings')]
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
}

/** A chart's package is an archive of its folder; helm checks it where it is installed. */
function chart(): Artefact[] {
  const file = join(out, `sluice-chart-${version}.tgz`)
  run('tar', ['-czf', file, '-C', join(root, 'deploy/helm'), 'sluice'], root)
  const helm = works('helm', ['version'])
  if (helm)
    run(
      'helm',
      ['template', 'sluice', file, '--kube-version', '1.34.0', '--set', 'secret.adminKey=sk_0123456789abcdefghij'],
      root,
    )
  return [
    built(
      file,
      helm ? 'packed, and rendered by helm' : 'packed; helm is missing to render it',
      'cosign, by the workflow',
    ),
  ]
}

function image(): Artefact {
  const name = `ghcr.io/OWNER/sluice:${version}`
  const checked = works('hadolint', ['--version'])
  if (checked) run('hadolint', ['deploy/Dockerfile'], root)
  const how = `${checked ? 'hadolint finds nothing in its Dockerfile; ' : ''}buildx builds it for amd64 and arm64 with its SBOM`
  return { ...notBuilt(name, how), signature: 'cosign, by the workflow' }
}

function installer(): Artefact {
  const file = join(out, 'install.sh')
  const text = read('deploy/install.sh').replace('@VERSION@', version)
  writeFileSync(file, text, { mode: 0o755 })
  run('sh', ['-n', file], root)
  return built(file, 'checks SHA256SUMS before it installs')
}
