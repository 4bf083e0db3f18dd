import { SourceMap } from 'node:module'
import { fileURLToPath } from 'node:url'
import { mapOf } from '../assets/assets.ts'

/** A line of a stack in parts: the function, the file or its URL, line, column, the end. */
const frame = /^(\s+at (?:.*\()?)(.+):(\d+):(\d+)(\)?)$/gm

/** The maps of the files of the bundle that were in a stack; undefined for a file that has none. */
const maps = new Map<string, SourceMap | undefined>()

/**
 * The stack of an error with the places in the sources in place of those in the bundle: `src/engine/pump.ts:120:7`. Packages
 * in the bundle keep their places there. A map is read at the first stack that needs it: `--enable-source-maps` would read
 * all of them at each start.
 */
export function sourceStack(stack: string): string {
  return stack.replaceAll(frame, (whole, before: string, file: string, line: string, column: string, end: string) => {
    const place = sourceOf(file.startsWith('file:') ? fileURLToPath(file) : file, Number(line) - 1, Number(column) - 1)
    return place === undefined ? whole : `${before}${place}${end}`
  })
}

function sourceOf(path: string, line: number, column: number): string | undefined {
  if (!maps.has(path)) maps.set(path, readMap(path))
  const entry = maps.get(path)?.findEntry(line, column)
  // The entry before the place, which for the code of a package lies in other lines.
  if (entry === undefined || !('originalSource' in entry) || entry.generatedLine !== line) return undefined
  return `${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
}

function readMap(path: string): SourceMap | undefined {
  const text = mapOf(path)
  return text === undefined ? undefined : new SourceMap(JSON.parse(text))
}
