/**
 * The layers of `src`, and what each may import. `npm run map` and `test/house.test.ts` check every import against it.
 *
 * A file of a feature belongs to the layer that the last word of its name says: `rows.ts` and `content-rows.ts` to the store,
 * `routes.ts` to the operations. Every other file of a feature is pure, and belongs to the domain.
 */
export const layerOfFeatureFile: Readonly<Record<string, string>> = {
  rows: 'store/sql',
  store: 'store',
  schemas: 'operations',
  service: 'operations',
  routes: 'operations',
  command: 'cli',
  terminal: 'cli',
  job: 'leader',
  step: 'engine',
  steps: 'engine',
  meter: 'metrics',
  file: 'runtime',
}

/** The inside of a feature: files that registries alone import. Its other files are there for other features and for the core. */
export const insides: readonly string[] = ['routes', 'command', 'job', 'steps', 'meter']

/** The lists that the program is made from. They import the insides of features. */
export const registries: readonly string[] = [
  'cli/program.ts',
  'leader/leader-jobs.ts',
  'compose/delivering.ts',
  'compose/parts.ts',
]

interface Layer {
  /** The layers that it may import; itself always. */
  readonly knows: readonly string[]
  /** Packages and modules of Node that no file of it imports. */
  readonly without?: readonly string[]
}

const heart = ['domain', 'json', 'wire']
const below = [...heart, 'shaping', 'sources', 'metrics', 'intake', 'store', 'assets']
const program = [...below, 'operations', 'runtime', 'compose', 'cli']

export const layers: Readonly<Record<string, Layer>> = {
  assets: { knows: [] },
  domain: { knows: [], without: ['node:*', 'commander', 'fastify', 'pg', 'pino', 'typebox', 'undici'] },
  json: { knows: ['domain'] },
  wire: { knows: ['domain', '../receiver/src'] },
  // Run on Cloudflare Workers, too.
  sources: { knows: heart, without: ['node:fs', 'node:net', 'node:http', 'pino', 'undici', 'typebox'] },
  store: { knows: [...heart, 'assets', 'store/sql'] },
  'store/sql': { knows: [...heart, 'store'] },
  'store/sqlite': { knows: [...heart, 'store', 'store/sql', 'assets'] },
  'store/postgres': { knows: [...heart, 'store', 'store/sql', 'assets'] },
  sender: { knows: heart },
  shaping: { knows: [...heart, 'store'] },
  metrics: { knows: [...heart, 'store'], without: ['fastify'] },
  intake: { knows: [...heart, 'shaping', 'metrics', 'store'] },
  engine: { knows: [...heart, 'shaping', 'sender', 'store'] },
  leader: { knows: [...heart, 'intake', 'metrics', 'store'] },
  operations: { knows: below, without: ['fastify'] },
  http: { knows: [...below, 'operations'] },
  runtime: { knows: ['domain', 'wire', 'assets'] },
  // Of the server, the composition root alone knows the concrete stores, the engine, the leader and HTTP.
  cli: { knows: program },
  library: { knows: program },
  compose: {
    knows: [...below, 'operations', 'runtime', 'engine', 'leader', 'http', 'sender', 'store/sqlite', 'store/postgres'],
  },
  '(top)': { knows: [...program, 'library', 'store/sqlite'] },
}

/** The layer of a file, by its path in `src`. */
export function layerOf(path: string): string {
  const steps = path.split('/')
  if (steps[0] === 'features' || steps[0] === 'noun') {
    return layerOfFeatureFile[/(\w+)\.ts$/.exec(path)?.[1] ?? ''] ?? 'domain'
  }
  return steps.length === 1 ? '(top)' : steps.slice(0, -1).join('/')
}

/** The feature of a file; undefined for the core. */
function featureOf(path: string): string | undefined {
  return /^features\/([^/]+)\//.exec(path)?.[1]
}

/** The imports of a file that break the rules, as sentences. `modules` are those of packages and of Node. */
export function importProblems(path: string, imports: readonly string[], modules: readonly string[]): string[] {
  const layer = layerOf(path)
  const { knows, without = [] } = layers[layer] ?? { knows: [] }
  const unknown = imports.filter((other) => {
    const to = other.startsWith('../') ? other.slice(0, other.lastIndexOf('/')) : layerOf(other)
    return to !== layer && !knows.includes(to)
  })
  const hidden = imports.filter((other) => {
    const [own, feature] = [featureOf(path), featureOf(other)]
    if (feature === undefined || own === feature || mayImportInsides(path)) return false
    return insides.includes(/(\w+)\.ts$/.exec(other)?.[1] ?? '')
  })
  const forbidden = modules.filter((name) =>
    without.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name)),
  )
  return [
    ...unknown.map((other) => `${path} is of the layer ${layer}, and imports ${other}, which that must not know.`),
    ...hidden.map((other) => `${path} imports ${other}, which is inside another feature.`),
    ...forbidden.map((name) => `${path} is of the layer ${layer}, and imports ${name}.`),
  ]
}

/** Files that know of a destination its key, its kind, its limits and the outcome of an attempt, and no more. */
const ofAnyKind =
  /^engine\/|^domain\/(?:judge|health|scheduler|lane|queue|rate|retry|slot-use|outcome)\.ts$|^features\/why\/(?!routes|schemas|command)|^features\/doctor\/\w+-rules\.ts$/
/** Names of fields that an endpoint has because its kind is `http`, and statuses in a comparison. */
const ofHttp =
  /\b(?:url|method|secrets|signatureHeaders|headerTemplates|clientCertificate|auth)\b|\bstatus (?:[=!]==|[<>]=?) [1-9]/g

/** The places where a file of the core knows one kind of destination, as sentences. Comments and texts do not count. */
export function kindProblems(path: string, text: string): string[] {
  if (!ofAnyKind.test(path)) return []
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'/g, '')
  const found = new Set(code.match(ofHttp))
  return [...found].map(
    (word) => `${path} says "${word}", which belongs to the kind http: src/sender, or the feature's routes.`,
  )
}

function mayImportInsides(path: string): boolean {
  return (
    /^features\/[^/]+$/.test(path) ||
    registries.includes(path) ||
    layerOf(path) === 'library' ||
    layerOf(path) === 'compose'
  )
}
