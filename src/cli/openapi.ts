import type { Command as Commander } from 'commander'
import type { World } from './command.ts'
import { exitCode } from './exit.ts'
import { toJson } from './terminal.ts'

/** `sluice openapi`: prints the same document that the server serves at /api/v1/openapi.json. */
export function addOpenapi(program: Commander, { terminal }: World, finish: (code: number) => void): void {
  program
    .command('openapi')
    .description('print the OpenAPI document of the API')
    .option('--json', 'print JSON (always on)')
    .action(async () => {
      // Only here: the schemas take longer to load than most commands to run.
      const { openApiDocument } = await import('../operations/openapi.ts')
      terminal.endWithReader()
      terminal.print(toJson(openApiDocument(), 2))
      finish(exitCode.ok)
    })
}
