import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { epochIgnored } from './plants.ts'

// Loaded before the program: it takes the fences against a worker of an earlier epoch out of the sources as they are read.
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    if (!url.startsWith('file:')) return loaded
    const patches = epochIgnored.filter(({ file }) => fileURLToPath(url).endsWith(file))
    if (patches.length === 0) return loaded
    let source = Buffer.from(loaded.source as Uint8Array).toString()
    for (const { from, to } of patches) source = source.replace(from, to)
    return { ...loaded, source }
  },
})
