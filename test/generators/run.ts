import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Makes a client of docs/openapi.json with each of these generators and compiles it, where its runtime is installed:
 *
 *     npm run test:generators
 *     npm run test:generators -- java rust
 *
 * The generators come from their registries, once, in these versions. `npm test` checks what the document needs for them
 * (test/http/openapi-names.test.ts).
 */
const cache = join(import.meta.dirname, '../../node_modules/.cache/generators')
const document = join(import.meta.dirname, '../../docs/openapi.json')
const openApiGenerator = '7.17.0'
const jar = `openapi-generator-cli-${openApiGenerator}.jar`
const strict =
  '--strict --noEmit --target es2023 --lib es2023,dom,dom.iterable --module preserve --moduleResolution bundler'

/** A command with its arguments, separated by spaces; `DOC` is the document. */
type Step = string

interface Generator {
  readonly name: string
  /** Commands without which it is left out. */
  readonly needs: readonly string[]
  readonly install: readonly Step[]
  readonly steps: readonly Step[]
  /** Files that are written before the steps, by their path. */
  readonly files?: Readonly<Record<string, string>>
}

const npm = (...packages: string[]): Step => `npm install --no-audit --no-fund --prefix . ${packages.join(' ')}`
const javaInstall = `mvn -q dependency:copy -Dartifact=org.openapitools:openapi-generator-cli:${openApiGenerator} -DoutputDirectory=.`

const generators: readonly Generator[] = [
  {
    name: 'openapi-typescript',
    needs: ['npm'],
    install: [npm('openapi-typescript@7.13.0', 'typescript@5.9.3')],
    steps: ['npx openapi-typescript DOC -o client.ts', `npx tsc ${strict} client.ts`],
  },
  {
    name: 'hey-api',
    needs: ['npm'],
    install: [npm('@hey-api/openapi-ts@0.95.0', 'typescript@5.9.3')],
    steps: ['npx openapi-ts -i DOC -o client -p @hey-api/client-fetch', `npx tsc ${strict} client/index.ts`],
  },
  {
    name: 'openapi-python-client',
    needs: ['python3'],
    install: ['python3 -m venv venv', 'venv/bin/pip -q install openapi-python-client==0.29.1'],
    steps: [
      'venv/bin/openapi-python-client generate --path DOC --output-path client --overwrite --meta none',
      'venv/bin/python import-all.py',
    ],
    files: {
      'import-all.py': [
        'import importlib, pkgutil, client',
        "names = [each.name for each in pkgutil.walk_packages(client.__path__, 'client.')]",
        'for name in names: importlib.import_module(name)',
        'print(len(names), "modules")',
      ].join('\n'),
    },
  },
  {
    name: 'oapi-codegen',
    needs: ['go'],
    install: ['go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2'],
    steps: ['./oapi-codegen -package sluice -generate types,client -o client.go DOC', 'go mod tidy', 'go vet ./...'],
    files: { 'go.mod': 'module sluice\n\ngo 1.24\n' },
  },
  ofOpenApi('typescript-fetch', ['npm'], [`npx -y -p typescript@5.9.3 tsc ${strict} client/index.ts`]),
  ofOpenApi('java', [], ['mvn -q -f client/pom.xml -DskipTests compile']),
  ofOpenApi('rust', ['cargo'], ['cargo check -q --manifest-path client/Cargo.toml']),
]

function ofOpenApi(name: string, needs: readonly string[], compile: readonly Step[]): Generator {
  const generate = `java -jar ${jar} generate -i DOC -g ${name} -o client --skip-validate-spec`
  return { name, needs: ['java', 'mvn', ...needs], install: [javaInstall], steps: [generate, ...compile] }
}

/** Runs a step in a folder; answers its output when it fails. */
function failureOf(step: Step, folder: string): string | undefined {
  const [command = '', ...given] = step.replace('DOC', document).split(' ')
  const env = { ...process.env, GOBIN: folder, CARGO_TARGET_DIR: join(folder, 'target') }
  const { status, stdout, stderr, error } = spawnSync(command, given, { cwd: folder, env, encoding: 'utf8' })
  return status === 0 ? undefined : `${step}\n${error?.message ?? ''}${(stdout + stderr).slice(-2000)}`
}

const has = (command: string) => spawnSync('which', [command]).status === 0

function tried({ name, needs, install, steps, files = {} }: Generator) {
  const missing = needs.filter((command) => !has(command))
  if (missing.length > 0) return { generator: name, result: `left out: ${missing.join(', ')} is not installed` }
  const folder = join(cache, name)
  mkdirSync(folder, { recursive: true })
  const mark = join(folder, 'installed')
  const isNew = !existsSync(mark) || readFileSync(mark, 'utf8') !== install.join('\n')
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text)
  const began = performance.now()
  for (const step of isNew ? [...install, ...steps] : steps) {
    const failure = failureOf(step, folder)
    if (failure !== undefined) return { generator: name, result: 'FAILED', failure }
    if (isNew && step === install.at(-1)) writeFileSync(mark, install.join('\n'))
  }
  return { generator: name, result: 'compiles', seconds: Math.round((performance.now() - began) / 1000) }
}

const wanted = process.argv.slice(2)
const { info } = JSON.parse(readFileSync(document, 'utf8'))
console.log(`docs/openapi.json, version ${info.version}`)
const results = generators.filter(({ name }) => wanted.length === 0 || wanted.includes(name)).map(tried)
console.table(results.map(({ failure: _, ...each }: { failure?: string }) => each))
for (const { failure } of results as { failure?: string }[]) if (failure !== undefined) console.error(failure)
if (results.some(({ result }) => result === 'FAILED')) process.exitCode = 1
