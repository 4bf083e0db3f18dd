import { Argument, type Command as Commander, InvalidArgumentError } from 'commander'
import { isPathStep } from '../domain/api.ts'
import { nouns } from '../features/nouns.ts'
import type { Declaration } from '../noun/noun.ts'
import { type Client, type Item, pathOf } from './client.ts'
import { openClient, type World } from './command.ts'
import { nameOf } from './table.ts'
import { CommandError, exitCode } from './terminal.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]
/** The scripts call `sluice` with this word and the words of the line to get completions. */
const namesWord = 'names'

/** The words that can follow one command: its subcommands and flags, with their help. */
interface Words {
  /** The command's path, such as `dead replay`; '' for the program. */
  readonly path: string
  /** For each word of the path, the names that the command accepts there: `[['endpoint', 'endpoints'], ['get', 'show']]`. */
  readonly names: readonly (readonly string[])[]
  readonly words: readonly { readonly word: string; readonly help: string }[]
}

/** `sluice completion`: prints a completion script for a shell. */
export function addCompletion(program: Commander, world: World, finish: (code: number) => void): void {
  program
    .command('completion')
    .description('print a shell completion script')
    .addArgument(new Argument('<shell>', 'name of the shell').choices(shells).argParser(readShell))
    .addArgument(new Argument('[words...]').argOptional())
    .addHelpText(
      'after',
      "\nbash: echo 'source <(sluice completion bash)' >> ~/.bashrc\nzsh:  echo 'source <(sluice completion zsh)' >> ~/.zshrc\nfish: sluice completion fish > ~/.config/fish/completions/sluice.fish",
    )
    .action(async (shell: Shell | typeof namesWord, words: readonly string[]) => {
      if (shell === namesWord) for (const name of await namesFor(program, world, words)) world.terminal.print(name)
      else world.terminal.print(scripts[shell](wordsOf(program)))
      finish(exitCode.ok)
    })
}

function readShell(word: string): Shell | typeof namesWord {
  const found = [...shells, namesWord].find((each) => each === word)
  if (found === undefined) throw new InvalidArgumentError(`Allowed choices are ${shells.join(', ')}.`)
  return found as Shell | typeof namesWord
}

/** A shell waits this long for names at most. */
const namesMs = 700
const mostNames = 250
/** Names are put into the line of a shell, which must find nothing to carry out in them. */
const plainName = /^[\w.:-]{1,256}$/

/** Lists that the operands of commands name, by the operand; those of an application get its name. */
const lists: Readonly<Record<string, (app: string) => string>> = {
  app: () => '/app',
  endpoint: (app) => pathOf('app', app, 'endpoint'),
  ...Object.fromEntries(Object.entries(nouns).map(([name, noun]) => [name, listOf(name, noun)])),
  'event-type': () => '/event-type',
  task: () => '/background-task',
}

/** The list of a noun's things: of the application that the command names, or of all. */
function listOf(name: string, { owner }: Declaration): (app: string) => string {
  return (app) => (owner === undefined || app === '' ? pathOf(name) : pathOf('app', app, name))
}

/** The names that can be the next operand, asked of the server. None when it does not answer in time. */
async function namesFor(program: Commander, world: World, words: readonly string[]): Promise<string[]> {
  let command = program
  const operands: string[] = []
  for (const word of words) {
    const child = operands.length > 0 ? undefined : command.commands.find((each) => isNamed(each, word))
    if (child !== undefined) command = child
    else if (!word.startsWith('-')) operands.push(word)
  }
  const wanted = command.registeredArguments[operands.length]?.name() ?? ''
  const isEventType = command.parent?.name() === 'event-type' && wanted === 'name' && command.name() !== 'create'
  if (!operands.every(isPathStep)) return []
  const path = lists[isEventType ? 'event-type' : wanted]?.(operands[0] ?? '')
  if (path === undefined) return []
  const late = new Promise<Item[]>((resolve) => void world.clock.after(namesMs, () => resolve([])))
  const items = await Promise.race([late, itemsAt(openClient(world, {}), path)])
  return items
    .map((item) => (typeof item.name === 'string' && isEventType ? item.name : nameIn(item)))
    .filter((name) => plainName.test(name))
}

function isNamed(command: Commander, word: string): boolean {
  return command.name() === word || command.aliases().includes(word)
}

function nameIn(item: Item): string {
  return item.id === undefined ? String(item.name) : nameOf(item)
}

async function itemsAt(client: Client, path: string): Promise<Item[]> {
  try {
    return (await client.list(path, {}, mostNames)).items
  } catch (error) {
    // Without a server, a key or the application there are no names, and a shell has no place for the reason.
    if (error instanceof CommandError) return []
    throw error
  }
}

const scripts: Readonly<Record<Shell, (all: readonly Words[]) => string>> = { bash, zsh, fish }

function wordsOf(command: Commander, path = '', names: Words['names'] = []): Words[] {
  const words = [
    ...command.commands.map((child) => ({ word: child.name(), help: child.description() })),
    ...command.options.map((option) => ({ word: option.long ?? option.flags, help: option.description })),
    { word: '--help', help: 'display help for command' },
  ]
  const children = command.commands.flatMap((child) =>
    wordsOf(child, `${path} ${child.name()}`.trim(), [...names, [child.name(), ...child.aliases()]]),
  )
  return [{ path, names, words }, ...children]
}

/** Shell code that finds the command before the cursor, by any of its names; operands and flags are skipped. */
function walk(all: readonly Words[]): string {
  const cases = all
    .filter(({ path }) => path !== '')
    .map(({ path, names }) => {
      const parent = path.split(' ').slice(0, -1)
      const patterns = (names.at(-1) ?? []).map((name) => `'${[...parent, name].join(' ')}'`)
      return `      ${patterns.join('|')}) place='${path}' ;;`
    })
  return `  local place='' word
  for word in "\${words_before[@]}"; do
    case "\${place:+$place }$word" in
${cases.join('\n')}
    esac
  done`
}

function bash(all: readonly Words[]): string {
  const cases = all.map(({ path, words }) => `    '${path}') found='${words.map(({ word }) => word).join(' ')}' ;;`)
  return `# sluice completion for bash
_sluice() {
  local words_before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}") found
${walk(all)}
  case "$place" in
${cases.join('\n')}
  esac
  local word="\${COMP_WORDS[COMP_CWORD]}"
  if [[ $COMP_CWORD -gt 1 && $word != -* ]]; then
    found="$found $(sluice completion names -- "\${words_before[@]}" 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$found" -- "$word"))
}
complete -o default -F _sluice sluice`
}

function zsh(all: readonly Words[]): string {
  const quote = (text: string) => text.replaceAll("'", "'\\''").replaceAll(':', '\\:')
  const cases = all.map(({ path, words }) => {
    const list = words.map(({ word, help }) => `'${quote(word)}:${quote(help)}'`).join(' ')
    return `    '${path}') found=(${list}) ;;`
  })
  return `#compdef sluice
# sluice completion for zsh
_sluice() {
  local -a words_before found
  words_before=("\${(@)words[2,CURRENT-1]}")
${walk(all)}
  case "$place" in
${cases.join('\n')}
  esac
  if [[ $CURRENT -gt 2 && $words[CURRENT] != -* ]]; then
    found+=(\${(f)"$(sluice completion names -- $words_before 2>/dev/null)"})
  fi
  _describe 'sluice' found || _files
}
compdef _sluice sluice`
}

function fish(all: readonly Words[]): string {
  const quote = (text: string) => text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")
  const lines = all.flatMap(({ path, names, words }) => {
    const seen = names.map((accepted) => `__fish_seen_subcommand_from ${accepted.join(' ')}`)
    const where = path === '' ? '__fish_use_subcommand' : seen.join('; and ')
    return words.map(({ word, help }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`
      return `complete -c sluice -f -n '${where}' ${what} -d '${quote(help)}'`
    })
  })
  const names =
    "complete -c sluice -f -n 'not __fish_use_subcommand' -a '(sluice completion names -- (commandline -opc)[2..] 2>/dev/null)'"
  return ['# sluice completion for fish', ...lines, names].join('\n')
}
