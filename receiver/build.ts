import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** Builds the package: JavaScript modules and declarations in dist. */
const folder = import.meta.dirname
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')

rmSync(join(folder, 'dist'), { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [compiler, '--singleThreaded', '-p', folder], { stdio: 'inherit' })
process.exitCode = status ?? 1
