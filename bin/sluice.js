#!/usr/bin/env -S node --min-semi-space-size=12 --max-semi-space-size=12 --heap-growing-percent=100
import { existsSync } from 'node:fs'
import { nodeProblem } from './node-version.js'

const problem = nodeProblem()
if (problem !== undefined) {
  console.error(problem)
  process.exit(2)
}
// In a checkout the program runs from its sources; the package has only what was built from them.
const source = new URL('../src/main.ts', import.meta.url)
const built = new URL('../dist/main.js', import.meta.url)
await import(existsSync(source) ? source : built)
