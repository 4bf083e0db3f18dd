import { configOf } from '../runtime/config.ts'
import type { Config, SettingName } from '../runtime/settings.ts'

/** What a setting is written as: durations and sizes as numbers or as text such as `10s` and `1MiB`. */
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

/** How to open Sluice inside a program. */
export interface SluiceOptions extends Settings {
  /**
   * Whether this process delivers; true when not said. On SQLite the process that delivers owns the file: every other
   * one opens it with `deliver: false` and publishes into it.
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
  // A program that embeds Sluice has a log of its own; by default only what needs attention is written into it.
  return { config: configOf({ logLevel: 'warn', ...given }), deliver, listen: given.listen !== undefined }
}
