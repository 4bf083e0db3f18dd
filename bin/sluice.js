#!/usr/bin/env -S node --min-semi-space-size=12 --max-semi-space-size=12 --heap-growing-percent=100
import { existsSync, statSync } from 'node:fs'
import module from 'node:module'
import { fileURLToPath } from 'node:url'
import { nodeProblem } from './node-version.js'

const problem = nodeProblem()
if (problem !== undefined) {
  console.error(problem)
  process.exit(2)
}
// The package has only the bundle. In a checkout the program runs from its sources.
const source = new URL('../src/main.ts', import.meta.url)
if (existsSync(source)) {
  cacheCompiled()
  await import(source)
} else await import(new URL('../dist/code/main.js', import.meta.url))

/**
 * Keeps what V8 compiled of the sources: removing types and compiling take half of a start. The code in the cache is run
 * unseen, so it lies in the checkout and not in the folder for temporary files, where another user could place some; and only
 * the user to whom the checkout belongs keeps it, so that root leaves nothing there that `npm ci` cannot remove.
 */
function cacheCompiled() {
  if (process.getuid !== undefined && statSync(source).uid !== process.getuid()) return
  // An answer, not an error, where nothing can be written.
  module.enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/sluice', import.meta.url)))
}
