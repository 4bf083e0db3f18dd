#!/usr/bin/env -S node --max-semi-space-size=6 --heap-growing-percent=100
import { existsSync } from 'node:fs'

if (Number.parseInt(process.versions.node, 10) < 24) {
  console.error(`Sluice needs Node 24 or newer; this is ${process.versions.node}.`)
  process.exit(2)
}
// In a checkout the program runs from its sources; the package has only what was built from them.
const source = new URL('../src/main.ts', import.meta.url)
const built = new URL('../dist/main.js', import.meta.url)
await import(existsSync(source) ? source : built)
