import type { ComponentChildren } from 'preact'
import { CopyButton } from './button.tsx'
import { Icon } from './icon.tsx'
import type { Tone } from './pill.tsx'

interface TroubleProps {
  readonly tone: Tone
  readonly sentence: string
  /** The command that helps, or the one that shows more. */
  readonly command: string
  /** Before the sentence, for readers who do not see the colour. */
  readonly severity: string
  /** Below the sentence. */
  readonly note?: ComponentChildren
  readonly actions?: ComponentChildren
}

/** One trouble in a list of class `troubles`: its sentence, the command that helps, and buttons. */
export function Trouble({ tone, sentence, command, severity, note, actions }: TroubleProps) {
  return (
    <li data-tone={tone}>
      <Icon name={tone === 'good' ? 'check' : 'warning'} />
      <div>
        <p>
          <span class="visually-hidden">{severity}: </span>
          {sentence}
        </p>
        {note !== undefined && <p class="soft">{note}</p>}
        {command !== '' && (
          <p class="command">
            <code>{command}</code>
            <CopyButton text={command} label="Copy the command" />
          </p>
        )}
      </div>
      {actions !== undefined && <span class="row">{actions}</span>}
    </li>
  )
}
