import MarkdownIt from 'markdown-it'
import { colored } from './code.ts'

/** A heading of a page, with the id that GitHub gives to it. */
export interface Heading {
  readonly level: number
  readonly id: string
  readonly text: string
}

/** The text below one heading, for the search. */
export interface Section {
  readonly heading: Heading | undefined
  readonly text: string
}

export interface Rendered {
  readonly html: string
  readonly headings: readonly Heading[]
  readonly sections: readonly Section[]
}

/** Where a link of a file leads, and the title of the page there, when it is one of the site. */
export interface Target {
  readonly address: string
  readonly title?: string | undefined
}

/** Renders a page. `linkTo` resolves a link as it stands in the file. A link that shows the name of a file shows its title. */
export function render(text: string, linkTo: (target: string) => Target): Rendered {
  const markdown = new MarkdownIt({ html: false })
  const headings: Heading[] = []
  const sections: { heading: Heading | undefined; text: string }[] = [{ heading: undefined, text: '' }]
  const tokens = markdown.parse(text, {})
  const ids = new Set<string>()
  for (const [at, token] of tokens.entries()) {
    const inline = tokens[at + 1]
    if (token.type === 'heading_open' && inline !== undefined) {
      const plain = plainOf(inline.children ?? [])
      const heading = { level: Number(token.tag.slice(1)), id: idOf(plain, ids), text: plain }
      token.attrSet('id', heading.id)
      headings.push(heading)
      sections.push({ heading, text: '' })
    } else if (token.type === 'inline' && tokens[at - 1]?.type !== 'heading_open') {
      const section = sections.at(-1)
      if (section !== undefined) section.text += `${plainOf(token.children ?? [])}\n`
    }
    // A table aligns its columns by inline styles, which the policy of the server forbids.
    const [, align] = /text-align:(\w+)/.exec(String(token.attrGet('style') ?? '')) ?? []
    if (align !== undefined) token.attrs = [['class', align]]
    for (const [nth, child] of (token.children ?? []).entries()) {
      if (child.type === 'link_open') {
        const { address, title } = linkTo(String(child.attrGet('href') ?? ''))
        child.attrSet('href', address)
        const shown = token.children?.[nth + 1]
        if (title !== undefined && shown !== undefined && /^[\w/-]+\.md$/.test(shown.content)) shown.content = title
      }
      if (child.type === 'image') {
        child.attrSet('src', linkTo(String(child.attrGet('src') ?? '')).address)
        child.attrSet('loading', 'lazy')
      }
    }
  }
  const { rules } = markdown.renderer
  rules.heading_close = (all, at) => {
    const id =
      all
        .slice(0, at)
        .findLast(({ type }) => type === 'heading_open')
        ?.attrGet('id') ?? ''
    return ` <a class="anchor" href="#${id}" aria-label="Link to this section">#</a></${all[at]?.tag}>\n`
  }
  // A wide table scrolls by itself, and is reached by the keyboard.
  rules.table_open = () => '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>\n'
  rules.table_close = () => '</table></div>\n'
  rules.fence = (all, at) => {
    const group = groupAt(all, at)
    if (group === undefined) return blockOf(all[at]?.info ?? '', all[at]?.content ?? '')
    if (group[0] !== at) return ''
    const blocks = group.map((each) => {
      const { label, language } = partsOf(all[each]?.info ?? '')
      return `<section data-label="${htmlOf(label)}">${blockOf(language, all[each]?.content ?? '')}</section>`
    })
    return `<div class="tabs">${blocks.join('')}</div>\n`
  }
  return { html: markdown.renderer.render(tokens, markdown.options, {}), headings, sections }
}

/** The word behind a fence, and the label of its tab: "```sh curl" is a block for shells with the label curl. */
function partsOf(info: string): { language: string; label: string } {
  const [, language = '', label = ''] = /^(\S*)\s*(.*)$/.exec(info.trim()) ?? []
  return { language, label }
}

/** The places of the labelled blocks that follow each other without a word between them, when this is one of them. */
function groupAt(tokens: readonly { type: string; info: string }[], at: number): number[] | undefined {
  const isLabelled = (each: number) => tokens[each]?.type === 'fence' && partsOf(tokens[each]?.info ?? '').label !== ''
  if (!isLabelled(at)) return undefined
  let from = at
  while (isLabelled(from - 1)) from--
  let to = at
  while (isLabelled(to + 1)) to++
  return from === to ? undefined : Array.from({ length: to - from + 1 }, (_, i) => from + i)
}

function blockOf(info: string, content: string): string {
  const { language } = partsOf(info)
  const name = language === '' ? 'text' : htmlOf(language)
  return `<div class="code-block"><pre tabindex="0" data-language="${name}"><code>${colored(language, content)}</code></pre></div>\n`
}

function plainOf(tokens: readonly { type: string; content: string }[]): string {
  return tokens
    .filter(({ type }) => type === 'text' || type === 'code_inline' || type === 'softbreak')
    .map(({ type, content }) => (type === 'softbreak' ? ' ' : content))
    .join('')
}

/** As GitHub does it, so that links of the Markdown files work in both places. */
function idOf(heading: string, taken: Set<string>): string {
  const slug = heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
  let id = slug
  for (let count = 1; taken.has(id); count++) id = `${slug}-${count}`
  taken.add(id)
  return id
}

/** Text as HTML. */
export function htmlOf(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
