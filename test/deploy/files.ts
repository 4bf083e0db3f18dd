import { spawnSync } from 'node:child_process'
import { cpSync, globSync, readFileSync, symlinkSync } from 'node:fs'
import { join, matchesGlob, relative } from 'node:path'
import { variableOf } from '../../src/runtime/setting-names.ts'
import { settingNames } from '../../src/runtime/settings.ts'

export const root = join(import.meta.dirname, '../..')

export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

export const packageJson = JSON.parse(read('package.json'))

/** Every file of deploy/ that was written by hand. */
export const written = globSync('deploy/**/*', { cwd: root, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
  .filter((path) => !/grafana-dashboard\.json|prometheus-rules\.yaml|values\.schema\.json/.test(path))

export const variables: ReadonlySet<string> = new Set([
  ...settingNames.map(variableOf),
  'SLUICE_URL',
  'SLUICE_API_KEY',
  'SLUICE_CONFIG',
])

/** The reason to skip a test that needs a tool; false when the tool is installed. */
export function without(tool: string, ...versionArguments: string[]): string | false {
  const line = versionArguments.length > 0 ? versionArguments : ['--version']
  return spawnSync(tool, line).status === 0 ? false : `${[tool, ...line].join(' ')} does not run here`
}

/** Runs a tool; throws its output when it fails. */
export function runTool(
  tool: string,
  line: readonly string[],
  options: { readonly cwd?: string; readonly input?: string; readonly env?: NodeJS.ProcessEnv } = {},
) {
  const { status, stdout, stderr } = spawnSync(tool, line, {
    ...options,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  if (status !== 0) throw new Error(`${tool} ${line.join(' ')} ended with ${status}:\n${stdout}\n${stderr}`)
  return stdout
}

const ignoreRules = read('deploy/Dockerfile.dockerignore')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))

/**
 * Whether a file is part of the context in which the image is built, as Docker decides it: the last rule that matches the
 * path or a folder above it. `*` matches names that begin with a dot, too.
 */
export function isSent(path: string): boolean {
  const parts = path.split('/')
  let sent = true
  for (const rule of ignoreRules) {
    const glob = rule.replace(/^!/, '')
    const matches = (name: string) => glob === '*' || matchesGlob(name, glob)
    if (parts.some((_, i) => matches(parts.slice(0, i + 1).join('/')))) sent = rule.startsWith('!')
  }
  return sent
}

/** Copies the context of the image to a folder, with the dependencies that the image would install there. */
export function copyContext(folder: string): void {
  const above = new Set(
    ignoreRules.filter((rule) => rule.startsWith('!')).flatMap((rule) => foldersAbove(rule.slice(1))),
  )
  cpSync(root, folder, {
    recursive: true,
    filter: (source) => {
      const path = relative(root, source)
      return path === '' || above.has(path) || isSent(path)
    },
  })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
}

function foldersAbove(path: string): string[] {
  const parts = path.split('/')
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join('/'))
}
