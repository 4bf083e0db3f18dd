import { configOf } from '../runtime/config.ts'
import type { Config, SettingName } from '../runtime/settings.ts'

/** The input form of a setting: durations and sizes are numbers or text such as `10s` and `1MiB`. */
type Written<T> = T extends number
  ? number | string
  : T extends boolean
    ? boolean
    : T extends readonly string[]
      ? readonly string[] | string
      : T extends string
        ? T
        : string

/** The settings of the command line, under the same names. Neither the environment nor a file is read. */
export type Settings = { readonly [Name in SettingName]?: Written<NonNullable<Config[Name]>> | undefined }

/** The options of `openSluice`. */
export interface SluiceOptions extends Settings {
  /**
   * Whether this process delivers (default: true). On SQLite the delivering process owns the file; other processes open
   * it with `deliver: false` and publish into it.
   */
  readonly deliver?: boolean | undefined
}

export interface Opening {
  readonly config: Config
  readonly deliver: boolean
  readonly listen: boolean
}

/** Reads the options. Throws `ConfigError` that names every mistake. */
export function readOptions({ deliver = true, ...given }: SluiceOptions): Opening {
  // A program that embeds Sluice has its own log; by default only warnings and errors are written into it.
  return { config: configOf({ logLevel: 'warn', ...given }), deliver, listen: given.listen !== undefined }
}
