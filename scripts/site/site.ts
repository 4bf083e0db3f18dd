import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { htmlOf, type Rendered, render, type Target } from './markdown.ts'

const root = join(import.meta.dirname, '../..')
const docs = join(root, 'docs')

/** A page of the site: its path below /docs, without an ending. */
interface SitePage {
  readonly path: string
  /** The file in the repository. */
  readonly file: string
  readonly title: string
  readonly text: string
  readonly rendered: Rendered
}

/** A group of the contents: a heading of docs/README.md and the pages that it lists. */
interface Group {
  readonly title: string
  readonly paths: readonly string[]
}

/**
 * Writes the documentation into the folder `docs` of a build of the pages, from the template that Vite made of ui/site.html:
 * each page of docs/ as HTML and as Markdown, the texts for the search, and llms.txt. docs/README.md gives the order of the
 * contents. Returns the paths of the pages.
 */
export function writeSite(dist: string): string[] {
  const template = readFileSync(join(dist, 'site.html'), 'utf8')
  rmSync(join(dist, 'site.html'))
  const pages = readSite()
  const groups = groupsOf(pages)
  const order = groups.flatMap(({ paths }) => paths).map((path) => pageAt(pages, path))
  for (const page of pages) {
    const place = order.findIndex(({ path }) => path === page.path)
    const body = bodyOf(page, groups, pages, place < 0 ? undefined : order[place - 1], order[place + 1])
    write(dist, `docs/${page.path}.html`, fill(template, page.title, body))
    write(dist, `docs/${page.path}.md`, page.text)
  }
  const missing = frame(
    '<h1>No such page</h1><p>Search for it, or begin at the <a href="/docs/">overview</a>.</p>',
    groups,
    pages,
  )
  write(dist, 'docs/404.html', fill(template, 'No such page', missing))
  write(dist, 'docs/search.json', JSON.stringify(pages.flatMap(entriesOf)))
  write(dist, 'llms.txt', llms(groups, pages))
  for (const { rendered } of pages) {
    for (const [, picture = ''] of rendered.html.matchAll(/src="\/docs\/([^"]+)"/g)) {
      cpSync(join(docs, picture), join(dist, 'docs', picture))
    }
  }
  return pages.map(({ path }) => path)
}

function readSite(): SitePage[] {
  const files = [...globSync('docs/**/*.md', { cwd: root }).sort(), 'CHANGELOG.md', 'CONTRIBUTING.md']
  const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
  const titles = new Map([...texts].map(([file, text]) => [file, /^# (.*)/m.exec(text)?.[1] ?? file]))
  return [...texts].map(([file, text]) => {
    const rendered = render(text, (target) => targetOf(file, target, titles))
    return { path: pathOf(file), file, title: rendered.headings[0]?.text ?? file, text, rendered }
  })
}

/** `docs/retry.md` is the page `retry`, docs/README.md the page `index`, and CHANGELOG.md the page `changelog`. */
function pathOf(file: string): string {
  const path = file.replace(/^docs\//, '').replace(/\.md$/, '')
  return path === 'README' ? 'index' : path.includes('/') ? path : path.toLowerCase()
}

/** A page of the site, a picture of it, or a file of the repository. `titles` has those of the pages by their files. */
function targetOf(file: string, target: string, titles: ReadonlyMap<string, string>): Target {
  if (/^[a-z]+:|^#|^\//.test(target)) return { address: target }
  const [path = '', anchor] = target.split('#')
  const at = normalize(join(dirname(file), path))
  const hash = anchor === undefined ? '' : `#${anchor}`
  if (titles.has(at)) return { address: addressOf(pathOf(at)) + hash, title: titles.get(at) }
  if (at === 'docs/openapi.json') return { address: '/api/v1/openapi.json' }
  if (/^docs\/(pictures\/)?[\w-]+\.(png|svg)$/.test(at)) return { address: `/${at}` }
  return { address: `${repository()}/blob/main/${at}${hash}` }
}

function addressOf(path: string): string {
  return path === 'index' ? '/docs/' : `/docs/${path}`
}

/** The groups of docs/README.md, and behind them the pages that it does not name. */
function groupsOf(pages: readonly SitePage[]): Group[] {
  const groups: { title: string; paths: string[] }[] = []
  for (const line of pageAt(pages, 'index').text.split('\n')) {
    const [, title] = /^## (.*)/.exec(line) ?? []
    if (title !== undefined) groups.push({ title, paths: [] })
    for (const [, target = ''] of line.matchAll(/\]\(((?:\.\.\/)?[\w/-]+\.md)\)/g)) {
      const path = pathOf(normalize(join('docs', target)))
      const isNew = !groups.some(({ paths }) => paths.includes(path))
      if (isNew && pages.some((page) => page.path === path)) groups.at(-1)?.paths.push(path)
    }
  }
  return groups.filter(({ paths }) => paths.length > 0)
}

function pageAt(pages: readonly SitePage[], path: string): SitePage {
  const page = pages.find((each) => each.path === path)
  if (page === undefined) throw new Error(`There is no page ${path}.`)
  return page
}

function bodyOf(
  page: SitePage,
  groups: readonly Group[],
  pages: readonly SitePage[],
  before?: SitePage,
  after?: SitePage,
): string {
  const { headings, html } = page.rendered
  const parts = headings.filter(({ level }) => level === 2 || level === 3)
  const contents =
    parts.length < 2
      ? ''
      : `<nav class="on-page" aria-label="On this page"><h2>On this page</h2><ul>${parts
          .map(({ level, id, text }) => `<li class="level-${level}"><a href="#${id}">${htmlOf(text)}</a></li>`)
          .join('')}</ul></nav>`
  const step = (at: SitePage | undefined, label: string) =>
    at === undefined
      ? '<span></span>'
      : `<a href="${addressOf(at.path)}"><small>${label}</small>${htmlOf(at.title)}</a>`
  const foot = `<footer><p><a href="${repository()}/edit/main/${page.file}">Edit this page</a> · <a href="/docs/${page.path}.md">Markdown</a></p><nav class="steps" aria-label="Pages">${step(before, 'Before')}${step(after, 'Next')}</nav></footer>`
  return frame(`${html}${foot}`, groups, pages, page.path, contents)
}

/** The frame of each page: the contents at the side, and the article. The script adds the search, the tabs and the theme. */
function frame(
  article: string,
  groups: readonly Group[],
  pages: readonly SitePage[],
  current = '',
  contents = '',
): string {
  const links = groups.map(({ title, paths }) => {
    const items = paths.map((path) => {
      const mark = path === current ? ' aria-current="page"' : ''
      return `<li><a href="${addressOf(path)}"${mark}>${htmlOf(pageAt(pages, path).title)}</a></li>`
    })
    return `<details${paths.includes(current) || current === 'index' || current === '' ? ' open' : ''}><summary>${htmlOf(title)}</summary><ul>${items.join('')}</ul></details>`
  })
  return `<a class="skip" href="#main">Skip to content</a>
<header class="site-bar"><a class="brand" href="/docs/">Sluice</a><div id="search"></div><nav aria-label="Site"><a href="/docs/reference">API reference</a><a href="${repository()}">Source</a><span id="theme"></span></nav></header>
<div class="site"><nav id="contents" class="contents" aria-label="Contents">${links.join('')}</nav><main id="main" tabindex="-1"><article class="prose">${article}</article></main>${contents}</div>`
}

function fill(template: string, title: string, body: string): string {
  return template.replace('{{title}}', () => htmlOf(title)).replace('{{body}}', () => body)
}

/** One entry of the search for each heading. */
function entriesOf({ path, title, rendered }: SitePage): object[] {
  if (path.startsWith('decisions/') || path === 'changelog') return []
  return rendered.sections
    .filter(({ heading, text }) => heading !== undefined || text.trim() !== '')
    .map(({ heading, text }) => ({
      address: addressOf(path) + (heading === undefined || heading.level === 1 ? '' : `#${heading.id}`),
      title,
      heading: heading === undefined || heading.level === 1 ? '' : heading.text,
      text: text.trim(),
    }))
}

/** The list of pages for programs that read (llmstxt.org): each page as Markdown, with its first sentence. */
function llms(groups: readonly Group[], pages: readonly SitePage[]): string {
  const lineOf = (path: string) => {
    const { title, rendered } = pageAt(pages, path)
    const first = /^[^\n]*?[.:](?=\s|$)/.exec(
      rendered.sections.map(({ text }) => text.trim()).find((text) => text !== '') ?? '',
    )
    return `- [${title}](/docs/${path}.md)${first === null ? '' : `: ${first[0]}`}`
  }
  const parts = groups.map(({ title, paths }) => `## ${title}\n\n${paths.map(lineOf).join('\n')}`)
  const reference = '## API\n\n- [OpenAPI document](/api/v1/openapi.json): every operation, with examples.'
  return `# Sluice\n\n> Webhook delivery that loses nothing and floods nobody.\n\n${[...parts, reference].join('\n\n')}\n`
}

/** The address of the repository, of package.json. */
function repository(): string {
  const { homepage } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { homepage: string }
  return homepage.replace(/#.*/, '')
}

function write(dist: string, path: string, text: string): void {
  mkdirSync(dirname(join(dist, path)), { recursive: true })
  writeFileSync(join(dist, path), text)
}
