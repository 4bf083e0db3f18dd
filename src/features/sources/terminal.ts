import { ApiProblem, type Item, pathOf } from '../../cli/client.ts'
import type { Session } from '../../cli/command.ts'
import { flagName, helpOf, withoutMarks } from '../../cli/field-options.ts'
import { text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import type { Field } from '../../domain/field.ts'
import type { Setting } from '../../sources/provider.ts'
import { isProviderName, providerNames, providers } from '../../sources/providers.ts'

/** Sources among which a name without --app is looked for. */
const searched = 10_000

/** A source by id or uid, wherever it is. */
export async function locate(session: Session, ref: string): Promise<{ app: string; path: string; item: Item }> {
  const { client, options } = session
  if (typeof options.app === 'string') {
    const path = pathOf('app', options.app, 'source', ref)
    return { app: options.app, path, item: await client.get(path) }
  }
  const { items } = await client.list('/source', {}, searched)
  const [item, other] = items.filter(({ id, uid }) => id === ref || uid === ref)
  if (item === undefined)
    throw new CommandError(`There is no source ${JSON.stringify(ref)}. See: sluice source list`, exitCode.notFound)
  if (other !== undefined) {
    throw new CommandError(`Several applications have a source ${ref}; add --app.`, exitCode.misused)
  }
  const app = text(item.appUid ?? item.appId)
  return { app, path: pathOf('app', app, 'source', text(item.id)), item }
}

/** The settings of all providers. Settings of the same name have one flag, whose help names the providers. */
export const settings: Readonly<Record<string, Field>> = mergedSettings()

function mergedSettings(): Record<string, Field> {
  const all = providerNames.flatMap((provider) =>
    Object.entries(providers[provider].settings).map(([name, field]) => ({ provider, name, field })),
  )
  const merged = [...Map.groupBy(all, ({ name }) => name)].map(([name, users]) => {
    const helps = [...Map.groupBy(users, ({ field }) => helpOf(field))].map(([help, same]) =>
      same.length === providerNames.length ? help : `${same.map(({ provider }) => provider).join(', ')}: ${help}`,
    )
    return [name, { ...users[0]?.field, help: helps.join('; ') }]
  })
  return Object.fromEntries(merged)
}

/** The settings of a provider; none for a provider that this version does not know. */
export function settingsOf(provider: unknown): Readonly<Record<string, Setting>> {
  return typeof provider === 'string' && isProviderName(provider) ? providers[provider].settings : {}
}

/** The settings of a source that differ from the defaults of its provider. */
export function ownSettings({ provider, settings: all }: Item): Item {
  const known = settingsOf(provider)
  const differs = ([name, value]: [string, unknown]) =>
    value !== null && JSON.stringify(value) !== JSON.stringify(known[name]?.fallback)
  return Object.fromEntries(Object.entries(all as Item).filter(differs))
}

/** The flag of a setting; the name in the API for a setting that has none. */
export function flagOf(name: string): string {
  const flag = settings[name]?.flag
  return flag === undefined ? `settings.${name}` : `--${flagName(flag)}`
}

/** A step of a provider without Markdown, with flags in place of the fields of the API. */
export function stepOf(provider: string, step: string): string {
  const known = settingsOf(provider)
  return withoutMarks(
    step.replaceAll(/`(\w+)`/g, (mark, name: string) => (Object.hasOwn(known, name) ? flagOf(name) : mark)),
  )
}

/** Waits for an answer. A refusal of the server names the flags in place of the fields of the API. */
export async function byFlags(provider: string, asked: Promise<Item>): Promise<Item> {
  try {
    return await asked
  } catch (error) {
    if (!(error instanceof ApiProblem) || error.code !== 'validation') throw error
    const message = error.message
      .replaceAll(/^ {2}- settings\.(\w+): (.*)$/gm, (_line, name: string, problem: string) => {
        const named = problem.replaceAll(/\b(?:settings\.)?([a-z]+[A-Z]\w*|(?<=\.)\w+)/g, (word, setting: string) =>
          Object.hasOwn(settings, setting) ? flagOf(setting) : word,
        )
        return `  - ${flagOf(name)}: ${named}${remedyOf(provider, name, problem)}`
      })
      .replaceAll(/^ {2}- secret: /gm, '  - --secret: ')
    throw new ApiProblem(message, error.status, error.code)
  }
}

/** The help of a setting that is missing, or of one that only other providers have. */
function remedyOf(provider: string, name: string, problem: string): string {
  const own = settingsOf(provider)[name]
  if (own !== undefined) return problem === 'is required' ? ` (${helpOf(own)})` : ''
  const other = settings[name]
  return other === undefined ? '' : ` (${helpOf(other)})`
}
