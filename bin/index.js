import { createRequire } from 'node:module'
import { nodeProblem } from './node-version.js'

const problem = nodeProblem()
if (problem !== undefined) throw new Error(problem)

// Loaded after the check: an older Node cannot even link the modules of the library. `require` loads the same instance of
// a module that `import` would, and unlike a top-level await it lets programs require this package.
export const {
  AppError,
  ConfigError,
  FileOwnedError,
  NotEnlistableError,
  openSluice,
  SecretError,
  SignatureError,
  StoreTrouble,
  verify,
  version,
} = createRequire(import.meta.url)('../dist/code/index.js')
