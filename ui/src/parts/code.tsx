import { useState } from 'preact/hooks'
import { CopyButton } from './button.tsx'
import { Segmented } from './page.tsx'

/** Text as it is, never as HTML, with a button that copies it. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code-block">
      <CopyButton text={text} label={`Copy ${label}`} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard. */}
      <section class="scroll" tabIndex={0} aria-label={label}>
        <pre>{text}</pre>
      </section>
    </div>
  )
}

/** A payload, pretty or as it was sent. Numbers keep their digits: the text is indented, not parsed. */
export function Payload({ raw, label }: { raw: string; label: string }) {
  const [view, setView] = useState<'pretty' | 'raw'>('pretty')
  return (
    <>
      <Segmented<'pretty' | 'raw'>
        label="View"
        value={view}
        choices={[
          ['pretty', 'Pretty'],
          ['raw', 'Raw'],
        ]}
        onChange={setView}
      />
      <Code text={view === 'pretty' ? indent(raw) : raw} label={label} />
    </>
  )
}

/** Indents JSON without parsing it, so that `1.0`, long integers and the order of keys stay as they are. */
export function indent(raw: string): string {
  try {
    JSON.parse(raw)
  } catch {
    return raw
  }
  let out = ''
  let depth = 0
  let before = ''
  const newLine = () => `\n${'  '.repeat(depth)}`
  for (const [token] of raw.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const opened = before === '{' || before === '['
    if (token === '}' || token === ']') {
      depth--
      out += opened ? token : newLine() + token
    } else {
      if (opened || before === ',') out += newLine()
      out += token === ':' ? ': ' : token
      if (token === '{' || token === '[') depth++
    }
    before = token
  }
  return out
}
