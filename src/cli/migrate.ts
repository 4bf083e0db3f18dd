import { showSetting } from '../runtime/config.ts'
import type { Command } from './command.ts'
import { exitCode } from './exit.ts'

/** `sluice migrate`: brings the store's tables up to date and prints their version. Every start migrates, too. */
export const migrate: Command = async (world, { config }) => {
  const { store } = await world.openParts(config, world.openLog(config))
  await store.close()
  const { version, name } = await world.newestSchema(config)
  world.terminal.print(`${showSetting('store', config)} has schema version ${version} (${name}), the newest known.`)
  return exitCode.ok
}
