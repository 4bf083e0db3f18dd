import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { importProblems, kindProblems, layerOf, registries } from './layers.ts'

/**
 * Prints the house: files and lines per folder, which folder imports which, the longest files, and how many files each
 * noun of the glossary is spread over. Exits with 1 when folders import each other in a circle, when a file is longer than
 * 400 lines, or when a feature has a file outside of its folder, or more than 8. Files and lines are counted and not limited:
 * they grow with what Sluice can do, and a limit of files only made small ones merge.
 *
 *     npm run map
 *     npm run map -- --files                 every file
 *     npm run map -- --noun schedule         the hand-made files of one noun, and those that only name it
 *     npm run map -- --field missedLimit     the lines and places that name a field
 *     npm run map -- --walk publish          the files that run for one event
 *     npm run map -- --measured              casts, invariants, methods of the store, lines
 */
const longestLines = 400
const mostFiles = 8
/** Names of features that are words of the core, too. */
const wordsOfCore = new Set(['access', 'arrivals', 'attempts', 'health', 'lanes', 'messages', 'sessions', 'sources'])
/** Lists that are no registry of insides: of the library, of its public names, of paths and of pages. */
const lists = ['src/library/manage.ts', 'src/index.ts', 'ui/src/pages/dashboard.tsx']
const root = join(import.meta.dirname, '..')
const source = join(root, 'src')

interface SourceFile {
  readonly path: string
  readonly folder: string
  readonly lines: number
  readonly imports: readonly string[]
  /** Packages and modules of Node. */
  readonly modules: readonly string[]
  readonly text: string
}

const asked = new Map(process.argv.slice(2).map((flag, i, flags) => [flag, flags[i + 1] ?? '']))
const [noun, field, walk] = [asked.get('--noun'), asked.get('--field'), asked.get('--walk')]
if (noun !== undefined) showNoun(noun)
if (field !== undefined) showField(field)
if (walk !== undefined) await (await import('./walk.ts')).showWalk(walk)
const isMeasured = asked.has('--measured')
if (isMeasured) await (await import('./measured.ts')).showMeasured()
if (noun !== undefined || field !== undefined || walk !== undefined || isMeasured) process.exit()

const files = globSync('**/*.{ts,sql}', { cwd: source })
  .filter((path) => !path.includes('migrations/'))
  .sort()
  .map(read)
const code = files.filter(({ path }) => path.endsWith('.ts'))
const importers = new Map<string, number>()
for (const { imports } of code) for (const path of imports) importers.set(path, (importers.get(path) ?? 0) + 1)

console.log('Folders')
console.table(
  Object.fromEntries(groupBy(files, ({ folder }) => folder).map(([folder, group]) => [folder, size(group)])),
)
console.log('All of src:', JSON.stringify(size(files)))

const edges = groupBy(
  code.flatMap(({ folder, imports }) =>
    imports.map((path) => ({ from: folder, to: layerOf(path) })).filter(({ from, to }) => from !== to),
  ),
  ({ from }) => from,
)
console.log('\nImports, with how many')
for (const [from, list] of edges) {
  const counts = groupBy(list, ({ to }) => to).map(([to, each]) => `${to} ${each.length}`)
  console.log(`  ${from.padEnd(16)} → ${counts.join(', ')}`)
}

console.log('\nFiles per noun: named for it, and that mention it')
const nouns = ['application', 'endpoint', 'message', 'attempt', 'dead', 'schedule', 'region', 'task', 'lane', 'circuit']
console.table(
  Object.fromEntries(
    nouns.map((noun) => [
      noun,
      {
        named: files.filter(({ path }) => path.toLowerCase().includes(noun)).length,
        mention: files.filter(({ text }) => new RegExp(noun, 'i').test(text)).length,
      },
    ]),
  ),
)

const longest = files.toSorted((a, b) => b.lines - a.lines).slice(0, 8)
console.log('\nLongest:', longest.map(({ path, lines }) => `${path} ${lines}`).join(', '))
if (process.argv.includes('--files')) for (const { path, lines } of files) console.log(String(lines).padStart(6), path)

const problems = [
  ...circles(new Map(edges.map(([from, list]) => [from, new Set(list.map(({ to }) => to))]))).map(
    (circle) => `Folders import each other in a circle: ${circle.join(' → ')}.`,
  ),
  ...longFiles(),
  ...code.flatMap(({ path, imports, modules }) => importProblems(path, imports, modules)),
  ...code.flatMap(({ path, text }) => kindProblems(path, text)),
  ...featureProblems(),
]
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1

function read(path: string): SourceFile {
  const text = readFileSync(join(source, path), 'utf8')
  const found = [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map(([, target = '']) =>
    relative(source, join(source, dirname(path), target)),
  )
  const modules = [...text.matchAll(/(?:from|import\(?)\s*'([^.'][^']*)'/g)].map(([, name = '']) => name)
  return {
    path,
    folder: layerOf(path),
    modules,
    lines: text.split('\n').length - 1,
    imports: [...new Set(found)],
    text,
  }
}

/** Hand-made files of the program and its pages; recorded answers, generated clients and dumps of schemas are none. */
function handMade(): { readonly path: string; readonly text: string }[] {
  const made = ['operations/example-answers.json', 'ui/src/api/schema.ts', 'ui/src/api/forms.ts', 'schema.sql']
  return globSync(['src/**/*.{ts,sql}', 'ui/src/**/*.{ts,tsx}'], { cwd: root })
    .filter((path) => !path.includes('migrations/') && !made.some((name) => path.endsWith(name)))
    .sort()
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
}

/** Files of the program, its pages and its tools that are longer than a concept. */
function longFiles(): string[] {
  return globSync(['src/**/*.ts', '{ui,edge,receiver}/src/**/*.{ts,tsx}', 'scripts/**/*.ts'], { cwd: root })
    .filter((path) => !path.startsWith('ui/src/api/'))
    .map((path) => ({ path, lines: readFileSync(join(root, path), 'utf8').split('\n').length - 1 }))
    .filter(({ lines }) => lines > longestLines)
    .map(({ path, lines }) => `${path} has ${lines} lines.`)
}

/** Features that have files beside their folder, or too many in it. Pages are in a folder of their own. */
function featureProblems(): string[] {
  const own = handMade().map(({ path }) => path)
  return globSync('features/*/', { cwd: source }).flatMap((folder) => {
    const name = basename(folder)
    const named = new RegExp(`(^|[/.-])${name.replace(/s$/, '')}s?([/.-]|$)`)
    const inside = own.filter((path) => path.startsWith(`src/${folder}/`))
    const core = own.filter((path) => path.startsWith('src/') && !path.startsWith('src/features/'))
    const outside = wordsOfCore.has(name) ? [] : core.filter((path) => named.test(path))
    return [
      ...outside.map((path) => `${path} belongs into src/${folder}.`),
      ...(inside.length > mostFiles ? [`src/${folder} has ${inside.length} files: it is two features.`] : []),
    ]
  })
}

/** A noun's own files are named for it, by their folder or themselves. Registries and users import one of these. */
function showNoun(name: string): void {
  const own = new RegExp(`(^|[/.-])${name}s?([/.-]|$)`)
  const imported = new RegExp(`(?:from|import\\()\\s*'[^']*[/-]${name}s?[/.-][^']*'`)
  const all = handMade()
  const named = all.filter(({ path }) => own.test(path))
  const users = all.filter((file) => !named.includes(file) && imported.test(file.text))
  const lines = named.reduce((sum, { text }) => sum + text.split('\n').length - 1, 0)
  console.log(`${name}: ${named.length} files of its own, ${lines} lines`)
  for (const { path, text } of named) console.log(String(text.split('\n').length - 1).padStart(6), path)
  const lists = users.filter((file) => isList(file.path))
  console.log(`${lists.length} lists that name it, of ${users.length} files that import one of them`)
  for (const { path } of users) console.log(`  ${isList(path) ? 'list ' : '     '}${path}`)
}

/** Whether a file is a list of features, nouns or pages, which a new one is added to. */
function isList(path: string): boolean {
  return (
    registries.some((each) => `src/${each}` === path) || /^src\/features\/[^/]+$/.test(path) || lists.includes(path)
  )
}

/**
 * The lines that name a field as the API does, as a column, as a flag, or as a name within another one. A place is a
 * declaration or a function: several lines of one are read and changed together.
 */
function showField(name: string): void {
  const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  const named = new RegExp(`\\b(${name}|${snake}|${snake.replaceAll('_', '-')})\\b`)
  const places = handMade().flatMap(({ path, text }) =>
    inPlaces(text).flatMap(({ place, line }) =>
      named.test(line) ? [{ place: `${path} ${place}`, line: line.trim() }] : [],
    ),
  )
  const counted = new Set(places.map(({ place }) => place)).size
  console.log(`${name}: ${places.length} lines in ${counted} places`)
  for (const { place, line } of places) console.log(`  ${place}: ${line}`)
}

/** The lines of a file, each with the name of the declaration or function that it is in. */
function inPlaces(text: string): { readonly place: string; readonly line: string }[] {
  let place = ''
  return text.split('\n').map((line) => {
    place =
      /^(?:export )?(?:async )?(?:const|let|function\*?|class|interface|type) (\{[^}]*\}|\w+)/.exec(line)?.[1] ?? place
    return { place, line }
  })
}

function size(group: readonly SourceFile[]) {
  return {
    files: group.length,
    lines: group.reduce((sum, { lines }) => sum + lines, 0),
    longest: Math.max(...group.map(({ lines }) => lines)),
    'up to 50 lines': group.filter(({ lines }) => lines <= 50).length,
    'one importer': group.filter(({ path }) => importers.get(path) === 1).length,
  }
}

function groupBy<T>(list: readonly T[], keyOf: (item: T) => string): [string, T[]][] {
  return [...Map.groupBy(list, keyOf)].sort(([a], [b]) => a.localeCompare(b))
}

/** Every circle that a walk along the imports finds, each once. A parent and its own subfolder are one part. */
function circles(graph: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const found: string[][] = []
  const done = new Set<string>()
  const walk = (folder: string, way: readonly string[]): void => {
    const at = way.indexOf(folder)
    if (at >= 0) {
      found.push([...way.slice(at), folder])
      return
    }
    if (done.has(folder)) return
    for (const next of graph.get(folder) ?? []) if (!isWithin(folder, next)) walk(next, [...way, folder])
    done.add(folder)
  }
  for (const folder of graph.keys()) walk(folder, [])
  return found
}

function isWithin(a: string, b: string): boolean {
  return a.startsWith(`${b}/`) || b.startsWith(`${a}/`)
}
