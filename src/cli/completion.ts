import { Argument, type Command as Commander } from 'commander'
import type { World } from './command.ts'
import { exitCode } from './exit.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** The words that can follow one command: its subcommands and flags, with their help. */
interface Words {
  /** The command's path, such as `dead replay`; '' for the program. */
  readonly path: string
  readonly words: readonly { readonly word: string; readonly help: string }[]
}

/** `sluice completion`: prints a completion script for a shell. */
export function addCompletion(program: Commander, world: World, finish: (code: number) => void): void {
  program
    .command('completion')
    .description('print a shell completion script')
    .addArgument(new Argument('<shell>', 'name of the shell').choices(shells))
    .addHelpText(
      'after',
      "\nbash: echo 'source <(sluice completion bash)' >> ~/.bashrc\nzsh:  echo 'source <(sluice completion zsh)' >> ~/.zshrc\nfish: sluice completion fish > ~/.config/fish/completions/sluice.fish",
    )
    .action((shell: Shell) => {
      world.terminal.print(scripts[shell](wordsOf(program)))
      finish(exitCode.ok)
    })
}

const scripts: Readonly<Record<Shell, (all: readonly Words[]) => string>> = { bash, zsh, fish }

function wordsOf(command: Commander, path = ''): Words[] {
  const words = [
    ...command.commands.map((child) => ({ word: child.name(), help: child.description() })),
    ...command.options.map((option) => ({ word: option.long ?? option.flags, help: option.description })),
    { word: '--help', help: 'display help for command' },
  ]
  const children = command.commands.flatMap((child) => wordsOf(child, `${path} ${child.name()}`.trim()))
  return [{ path, words }, ...children]
}

/** Shell code that finds the command before the cursor; operands and flags are skipped. */
function walk(all: readonly Words[]): string {
  const paths = all.filter(({ path }) => path !== '').map(({ path }) => `'${path}'`)
  return `  local place='' word
  for word in "\${words_before[@]}"; do
    case "\${place:+$place }$word" in
      ${paths.join('|')}) place="\${place:+$place }$word" ;;
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
  COMPREPLY=($(compgen -W "$found" -- "\${COMP_WORDS[COMP_CWORD]}"))
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
  _describe 'sluice' found || _files
}
compdef _sluice sluice`
}

function fish(all: readonly Words[]): string {
  const quote = (text: string) => text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")
  const lines = all.flatMap(({ path, words }) => {
    const where =
      path === ''
        ? '__fish_use_subcommand'
        : path
            .split(' ')
            .map((word) => `__fish_seen_subcommand_from ${word}`)
            .join('; and ')
    return words.map(({ word, help }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`
      return `complete -c sluice -f -n '${where}' ${what} -d '${quote(help)}'`
    })
  })
  return ['# sluice completion for fish', ...lines].join('\n')
}
