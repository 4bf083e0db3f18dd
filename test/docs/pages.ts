import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const root = join(import.meta.dirname, '../..')

/** A page of the documentation. */
export interface Page {
  /** Its path from the root of the repository. */
  readonly path: string
  readonly text: string
  /** The text without blocks of code. */
  readonly prose: string
  readonly blocks: readonly Block[]
}

/** A fenced block of code, with the word behind its fence. */
export interface Block {
  readonly language: string
  readonly code: string
}

/** Every page: those at the top, and all below docs. */
export function readPages(): Page[] {
  return ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'AGENTS.md', ...globSync('docs/**/*.md', { cwd: root })].map(
    readPage,
  )
}

export function readPage(path: string): Page {
  const text = readFileSync(join(root, path), 'utf8')
  const fence = /^```(\w*)\n(.*?)^```$/gms
  return {
    path,
    text,
    prose: text.replace(fence, ''),
    blocks: [...text.matchAll(fence)].map(([, language = '', code = '']) => ({ language, code })),
  }
}

/** The blocks of code of a page in one language, in their order. */
export function codeOf(path: string, language: string): string[] {
  return readPage(path)
    .blocks.filter((block) => block.language === language)
    .map(({ code }) => code)
}

/** The ids that GitHub gives to the headings of a page. */
export function anchorsOf({ prose }: Page): Set<string> {
  const headings = [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading)
  const anchors = new Set<string>()
  for (const heading of headings) {
    const slug = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-')
    let anchor = slug
    for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`
    anchors.add(anchor)
  }
  return anchors
}
