import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')

/** The problems of a program in a project, by the declarations of the packages that the project has installed. */
export async function typeProblems(project: string, program: string): Promise<string> {
  const types = join(root, 'node_modules/@types')
  writeFileSync(join(project, 'consumer.ts'), program)
  const options = { module: 'nodenext', target: 'es2024', strict: true, noEmit: true, exactOptionalPropertyTypes: true }
  const paths = { pg: [join(types, 'pg/index.d.ts')] }
  const compilerOptions = { ...options, types: ['node'], typeRoots: [types], paths, skipLibCheck: false }
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['consumer.ts'] }))
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const line = [compiler, '--singleThreaded', '-p', project]
  const { stdout } = await promisify(execFile)(process.execPath, line, { cwd: project }).catch((error) => error)
  return stdout
}
