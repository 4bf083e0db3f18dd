import { spawnSync } from 'node:child_process'
import { cpSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { buildUi } from './build-ui.ts'

/** Builds the package: JavaScript and declarations in dist, and beside them the other files that the sources read. */
const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')

rmSync(dist, { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [compiler, '-p', join(root, 'tsconfig.build.json')], {
  stdio: 'inherit',
})
if (status !== 0) process.exit(1)
cpSync(join(root, 'src'), dist, {
  recursive: true,
  filter: (path) => statSync(path).isDirectory() || !path.endsWith('.ts'),
})

await buildUi()
cpSync(join(root, 'ui', 'dist'), join(dist, 'ui'), { recursive: true, filter: (path) => !path.endsWith('.sources') })
