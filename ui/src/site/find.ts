import MiniSearch from 'minisearch'

/** One heading of the documentation, with the text below it. */
export interface Entry {
  readonly address: string
  readonly title: string
  readonly heading: string
  readonly text: string
}

export type Index = MiniSearch<Entry>

const shownResults = 12

export function indexOf(entries: readonly Entry[]): Index {
  const index = new MiniSearch<Entry>({
    idField: 'address',
    fields: ['title', 'heading', 'text'],
    storeFields: ['address', 'title', 'heading', 'text'],
    searchOptions: { boost: { title: 4, heading: 3 }, prefix: true, fuzzy: (term) => (term.length > 4 ? 0.2 : false) },
  })
  index.addAll(entries)
  return index
}

/** The best entries with all the words, or those with some of them when none has all. */
export function find(index: Index, text: string): Entry[] {
  const all = index.search(text, { combineWith: 'AND' })
  const found = all.length > 0 ? all : index.search(text)
  return found.slice(0, shownResults) as unknown as Entry[]
}
