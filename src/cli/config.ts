import { type Loaded, showSetting } from '../runtime/config.ts'
import { flagOf, settingNames, settings, variableOf } from '../runtime/settings.ts'
import type { World } from './command.ts'
import { exitCode } from './exit.ts'
import { toJson } from './terminal.ts'

/** `sluice config`: every setting with its value, the source of the value, and its help. Secrets are masked. */
export async function printConfig({ terminal }: World, loaded: Loaded, asJson: boolean): Promise<number> {
  const rows = settingNames.map((name) => ({
    name,
    value: showSetting(name, loaded.config),
    origin: loaded.origins[name],
    flag: flagOf(name),
    variable: variableOf(name),
    help: settings[name].help,
  }))
  if (asJson) {
    terminal.print(toJson(rows, 2))
    return exitCode.ok
  }
  const nameWidth = Math.max(...rows.map(({ name }) => name.length))
  const valueWidth = Math.max(...rows.map(({ value }) => value.length))
  for (const { name, value, origin, help } of rows) {
    const padded = `${terminal.style('bold', name.padEnd(nameWidth))}  ${value.padEnd(valueWidth)}`
    terminal.print(`${padded}  ${origin}`)
    terminal.print(terminal.style('dim', `${' '.repeat(nameWidth)}  ${help}`))
  }
  return exitCode.ok
}
