import { dirname, join, relative, resolve } from 'node:path'
import { type InputOption, type OutputOptions, type Plugin, type RolldownOutput, rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')

/**
 * Bundles the program with the packages that it needs. The npm package, the executable and the tests run such a bundle:
 * finding and linking 700 modules takes half of the processor time of a start.
 */
export async function bundle(
  input: InputOption,
  output: OutputOptions,
  plugins: readonly Plugin[] = [],
): Promise<RolldownOutput['output']> {
  const build = await rolldown({
    input,
    platform: 'node',
    // The client of Postgres loads it only where it is installed.
    external: ['pg-native'],
    // Beside these, `import` and `require` each follow their own condition: a class of pg extends what `require` answers.
    resolve: { conditionNames: ['sluice-source'] },
    plugins: [...plugins],
    onLog(level, log, report) {
      if (level === 'warn' && log.code !== 'EVAL')
        throw new Error(`The bundle of ${JSON.stringify(input)}: ${log.message}`)
      report(level, log)
    },
  })
  try {
    return (await build.generate(output)).output
  } finally {
    await build.close()
  }
}

/** Scripts that run in threads, by their paths below src: each is a bundle of its own. */
export const threads = ['store/sqlite/checkpoint-thread.js', 'operations/yaml-thread.ts']

/**
 * How shipped code is written: without comments, and with its lines and names, so that a trace can be read. A map names the
 * sources, and does not contain them.
 */
export const shipped = {
  minify: { compress: true, mangle: false, codegen: { removeWhitespace: false } },
  comments: false,
  sourcemap: 'hidden',
  sourcemapExcludeSources: true,
  sourcemapPathTransform: (source, map) => relative(root, resolve(dirname(map), source)),
} as const satisfies OutputOptions

/** Leaves the packages out of the maps: a map of the program alone has a third of the size and is read in a third of the time. */
export const mapsOfTheProgram: Plugin = {
  name: 'maps-of-the-program',
  transform: (code, id) => (id.includes('/node_modules/') ? { code, map: { mappings: '' } } : undefined),
}

/**
 * The code with escapes for all characters beyond Latin-1. V8 keeps the source for as long as the program runs, with two
 * bytes for each character when one needs them: 4 MB of memory for a few arrows and dashes.
 */
export function latinOnly(code: string): string {
  const raw = /String\.raw\s*`[^`]*[^\0-\xff][^`]*`|\\[^\0-\xff]/.exec(code)
  if (raw !== null) throw new Error(`An escape would change ${raw[0]}`)
  return code.replace(/[^\0-\xff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** The folders of the packages whose modules are in a bundle. */
export function packagesIn(output: RolldownOutput['output']): Set<string> {
  const folders = new Set<string>()
  for (const file of output) {
    for (const id of file.type === 'chunk' ? file.moduleIds : []) {
      const [folder] = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? []
      if (folder !== undefined) folders.add(folder)
    }
  }
  return folders
}
