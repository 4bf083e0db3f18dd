import type { RandomText } from '../domain/ids.ts'
import type { Terminal } from '../runtime/process.ts'

/**
 * Characters that act on a terminal or on the order in which it shows others: controls of both kinds, bidirectional
 * overrides and isolates, line separators, and all other invisible format characters but the three that scripts need
 * within words. Line feeds and tabs stay.
 */
const acting = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\n\t\u00ad\u200c\u200d]]/gv

const shownAs = '·'

/**
 * A terminal that never passes on control sequences from data. Names, descriptions, payloads and responses come from
 * tenants and receivers and reach the operator's terminal through many commands, so all output is cleaned here and not in
 * each command. Our own colours survive: `style` marks them with random text, and only marked ones become escapes.
 */
export function cleanTerminal(terminal: Terminal, randomText: RandomText): Terminal {
  const mark = `⟦${randomText(16)}⟧`
  const clean = (text: string) => text.replace(acting, shownAs).replaceAll(mark, '\x1b')
  const decoder = new TextDecoder()
  // All other members, getters included, are inherited from the terminal.
  return Object.create(terminal, {
    print: { value: (text: string) => terminal.print(clean(text)) },
    printError: { value: (text: string) => terminal.printError(clean(text)) },
    progress: { value: (line: string) => terminal.progress(clean(line)) },
    style: {
      value: (format: Parameters<Terminal['style']>[0], text: string) =>
        terminal.style(format, text.replace(acting, shownAs)).replaceAll('\x1b', mark),
    },
    write: {
      // A file or a pipe gets the bytes unchanged. They are lines of JSON, so for a terminal they can be escaped.
      value: (chunk: string | Uint8Array) => {
        if (terminal.columns === undefined) return terminal.write(chunk)
        return terminal.write(escaped(typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })))
      },
    },
  }) as Terminal
}

/** JSON for standard output. Characters that act on a terminal are escaped, so no data is lost. */
export function toJson(value: unknown, indent?: number): string {
  return escaped(JSON.stringify(value, null, indent))
}

function escaped(json: string): string {
  return json.replace(acting, (sign) => {
    // JSON writes characters beyond U+FFFF as two halves.
    return Array.from({ length: sign.length }, (_, i) => `\\u${sign.charCodeAt(i).toString(16).padStart(4, '0')}`).join(
      '',
    )
  })
}
