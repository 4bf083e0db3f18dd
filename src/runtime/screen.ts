/** The whole terminal, for a view that is redrawn in place. */
export interface Screen {
  readonly columns: number
  readonly rows: number
  /** Shows these lines from the top. Only lines that changed are written, in one go, so that nothing flickers. */
  draw(lines: readonly string[]): void
  /** Restores what was on the terminal before. It also happens when the process ends in any other way. */
  close(): void
}

const enter = '\x1b[?1049h\x1b[?25l\x1b[2J'
const leave = '\x1b[?25h\x1b[?1049l'
const clearToEnd = '\x1b[K'

/**
 * Takes the terminal over; undefined when standard input or output is none. `onKey` gets each key as the terminal sends it,
 * Ctrl-C included; `onResize` is called when the size has changed.
 */
export function openScreen(onKey: (key: string) => void, onResize: () => void): Screen | undefined {
  const { stdin, stdout } = process
  if (!stdin.isTTY || !stdout.isTTY) return undefined
  let shown: readonly string[] = []
  let isOpen = true

  function close(): void {
    if (!isOpen) return
    isOpen = false
    process.off('exit', close)
    stdin.off('data', hear)
    stdout.off('resize', resized)
    stdin.setRawMode(false)
    stdin.pause()
    stdout.write(leave)
  }

  function hear(chunk: Buffer): void {
    const text = chunk.toString()
    // An escape sequence, such as an arrow, is one key; anything else may be several that were typed quickly.
    for (const key of text.startsWith('\x1b') ? [text] : text) onKey(key)
  }

  function resized(): void {
    shown = []
    stdout.write('\x1b[2J')
    onResize()
  }

  stdin.setRawMode(true)
  stdin.resume()
  stdin.on('data', hear)
  stdout.on('resize', resized)
  // A crash ends the process with its handlers of `exit`.
  process.on('exit', close)
  stdout.write(enter)
  return {
    get columns() {
      return stdout.columns
    },
    get rows() {
      return stdout.rows
    },
    draw(lines) {
      if (!isOpen) return
      const wanted = lines.slice(0, stdout.rows)
      let changes = ''
      for (let row = 0; row < Math.max(wanted.length, shown.length); row++) {
        if (wanted[row] !== shown[row]) changes += `\x1b[${row + 1};1H${wanted[row] ?? ''}\x1b[0m${clearToEnd}`
      }
      shown = wanted
      if (changes !== '') stdout.write(changes)
    },
    close,
  }
}
