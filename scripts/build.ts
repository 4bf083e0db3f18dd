import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { buildUi } from './build-ui.ts'
import { bundle, latinOnly, mapsOfTheProgram, packagesIn, shipped, threads } from './bundle.ts'
import { thirdPartyLicences } from './licences.ts'

/**
 * Builds the package in dist: the bundled program and library in `code`, the declarations, and the other files that the
 * program reads, at the places that they have below src.
 */
const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')

// An executable that stands here stays: `files` of package.json keeps it out of the package.
const built = globSync('*', { cwd: dist }).filter((name) => !/^sluice-\w+-\w+(-licenses)?$/.test(name))
for (const name of built) rmSync(join(dist, name), { recursive: true })
// Several threads take twice the processor time: each resolves the common types again.
const compile = [compiler, '--singleThreaded', '-p', join(root, 'tsconfig.build.json')]
const { status } = spawnSync(process.execPath, compile, { stdio: 'inherit' })
if (status !== 0) process.exit(1)
placeDeclarations()
removeUnreachedDeclarations(join(dist, 'index.d.ts'))
cpSync(join(root, 'src'), dist, {
  recursive: true,
  // schema.sql shows the migrations' result to contributors; no program reads it.
  filter: (path) => statSync(path).isDirectory() || !/\.[tj]s$|\/schema\.sql$/.test(path),
})

await buildUi()
const pages = join(root, 'ui/dist')
cpSync(pages, join(dist, 'ui'), { recursive: true, filter: (path) => !/\/\.\w+(\.json)?$/.test(path) })

const packages = new Set<string>()
const entries = { main: join(root, 'src/main.ts'), index: join(root, 'src/index.ts') }
// All modules lie in one folder below dist, as src/assets/assets.ts lies below src: it finds the files by that.
await place(entries, 'code', { entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' })
for (const thread of threads) {
  await place(join(root, 'src', thread), dirname(thread), { entryFileNames: '[name].js', codeSplitting: false })
}
writeFileSync(join(dist, 'THIRD-PARTY-LICENSES'), thirdPartyLicences(packages, pages))

/** Writes the bundle of these entries to a folder of dist. */
async function place(input: Parameters<typeof bundle>[0], folder: string, names: Parameters<typeof bundle>[1]) {
  const output = await bundle(input, { format: 'esm', ...shipped, ...names }, [mapsOfTheProgram])
  for (const name of packagesIn(output)) packages.add(name)
  mkdirSync(join(dist, folder), { recursive: true })
  for (const file of output) {
    const content = file.type === 'chunk' ? latinOnly(file.code) : file.source
    writeFileSync(join(dist, folder, file.fileName), content)
  }
}

/**
 * Moves the declarations to dist, and those of the modules of `@sluice/receiver` to dist/receiver: the package needs no other
 * package for them. One file imports them, and only its paths change.
 */
function placeDeclarations(): void {
  const compiled = join(dist, 'compiled')
  cpSync(join(compiled, 'src'), dist, { recursive: true })
  renameSync(join(compiled, 'receiver/src'), join(dist, 'receiver'))
  rmSync(compiled, { recursive: true })
  const file = join(dist, 'wire/receiver.d.ts')
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll("'../../receiver/src/", "'../receiver/"))
  const astray = globSync('**/*.d.ts', { cwd: dist }).filter((path) =>
    /from ['"][./]*\/receiver\/src/.test(readFileSync(join(dist, path), 'utf8')),
  )
  if (astray.length === 0) return
  console.error(`Only src/wire/receiver.ts imports the receiver, for the sake of the package: ${astray.join(', ')}.`)
  process.exit(1)
}

/** A program that uses the package sees only the declarations that its entry refers to. 268 others would be junk. */
function removeUnreachedDeclarations(entry: string): void {
  const reached = new Set<string>()
  const look = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/(?:from |import\()["'](\.[^"']+)\.[jt]s["']/g)) {
      look(join(dirname(file), `${path}.d.ts`))
    }
  }
  look(entry)
  for (const name of globSync('**/*.d.ts', { cwd: dist })) {
    if (!reached.has(join(dist, name))) rmSync(join(dist, name))
  }
}
