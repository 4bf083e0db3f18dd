import { spawnSync } from 'node:child_process'
import { cpSync, globSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { buildUi } from './build-ui.ts'

/** Builds the package: JavaScript and declarations in dist, and beside them the other files that the sources read. */
const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')

// An executable that stands here stays: `files` of package.json keeps it out of the package.
const built = globSync('*', { cwd: dist }).filter((name) => !/^sluice-\w+-\w+$/.test(name))
for (const name of built) rmSync(join(dist, name), { recursive: true })
// Several threads take twice the processor time: each resolves the common types again.
const compile = [compiler, '--singleThreaded', '-p', join(root, 'tsconfig.build.json')]
const { status } = spawnSync(process.execPath, compile, { stdio: 'inherit' })
if (status !== 0) process.exit(1)
placeCompiled()
removeUnreachedDeclarations(join(dist, 'index.d.ts'))
cpSync(join(root, 'src'), dist, {
  recursive: true,
  // schema.sql shows the migrations' result to contributors; no program reads it.
  filter: (path) => statSync(path).isDirectory() || !/\.ts$|schema\.sql$/.test(path),
})

await buildUi()
cpSync(join(root, 'ui', 'dist'), join(dist, 'ui'), { recursive: true, filter: (path) => !path.endsWith('.sources') })

/**
 * Moves the compiled sources to dist, and the compiled modules of `@sluice/receiver` to dist/receiver: the package needs no
 * other package for them. One file imports them, and only its paths change.
 */
function placeCompiled(): void {
  const compiled = join(dist, 'compiled')
  cpSync(join(compiled, 'src'), dist, { recursive: true })
  renameSync(join(compiled, 'receiver/src'), join(dist, 'receiver'))
  rmSync(compiled, { recursive: true })
  for (const file of ['wire/receiver.js', 'wire/receiver.d.ts'].map((path) => join(dist, path))) {
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll("'../../receiver/src/", "'../receiver/"))
  }
  const astray = globSync('**/*.{js,d.ts}', { cwd: dist }).filter((path) =>
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
