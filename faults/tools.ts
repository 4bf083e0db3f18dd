import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { bundleProgram, fileTemplateVariable, programVariable, shortLived } from '../test/prepared.ts'
import { testEncryptionKey } from '../test/store/test-key.ts'
import type { Tools } from './run.ts'
import { compileShim } from './shim.ts'

const cache = join(import.meta.dirname, '../node_modules/.cache/sluice-tests')

/** Bundles the program, compiles the shim and makes a store that worlds copy. A run of the tests has two of them already. */
export async function prepare(folder: string): Promise<Tools & { readonly missing: string | undefined }> {
  // Postgres may run as another user, and reads the shim.
  chmodSync(folder, 0o711)
  process.env.NODE_COMPILE_CACHE ??= cache
  const shim = compileShim(folder)
  const bundle = process.env[programVariable] ?? (await bundleProgram(join(cache, 'program')))
  const given = process.env[fileTemplateVariable]
  const template = given ?? join(folder, 'template.db')
  if (given === undefined) await makeTemplate(bundle, folder, template)
  const missing = 'missing' in shim ? shim.missing : undefined
  return { folder, bundle, template, shim: 'path' in shim ? shim.path : undefined, missing }
}

async function makeTemplate(bundle: string, folder: string, template: string): Promise<void> {
  const migration = spawn(process.execPath, [...shortLived, bundle, 'migrate', '--store', `sqlite:${template}`], {
    cwd: folder,
    env: { ...process.env, SLUICE_ENCRYPTION_KEY: testEncryptionKey },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = await once(migration, 'exit')
  if (code !== 0) throw new Error('the store that every run begins with was not made')
}
