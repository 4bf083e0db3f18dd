import { readFileSync } from 'node:fs'

// Read instead of imported: the file lies outside what is compiled, at the same distance from src and from dist.
const packageFile = new URL('../../package.json', import.meta.url)

/** The version of this Sluice. */
export const version: string = JSON.parse(readFileSync(packageFile, 'utf8')).version
