import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export interface Licensed {
  readonly name: string
  readonly version: string
  /** An identifier such as MIT. */
  readonly licence: string
  readonly text: string
}

/**
 * The licences of all packages whose code is shipped, as one text: of those in the given folders, and of those in the built
 * pages. Most of them ask that their text comes with every copy.
 */
export function thirdPartyLicences(folders: Iterable<string>, pages: string): string {
  const parts = shippedPackages(folders, pages).map(({ name, version, licence, text }) => {
    return `${'='.repeat(80)}\n${name} ${version} (${licence})\n\n${text.trim().replaceAll('\r\n', '\n')}\n`
  })
  return `Sluice contains code of the packages below, each under its own licence.\n\n${parts.join('\n')}`
}

/** The packages whose code is shipped, by name: of those in the given folders, and of those in the built pages. */
export function shippedPackages(folders: Iterable<string>, pages: string): Licensed[] {
  const all = [...[...folders].map(licenceOf), ...licencesOfPages(pages)]
  // Several packages bring the same one.
  const each = new Map(all.map((licensed) => [`${licensed.name} ${licensed.version}`, licensed]))
  return [...each].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, licensed]) => licensed)
}

/** The licence of Node, which the executable contains: its archives, its image and its package have the file in other places. */
export function licenceOfNode(): string {
  const above = join(dirname(process.execPath), '..')
  const places = [above, join(above, `node_modules/node-${process.platform}-${process.arch}`)]
  const file = places.map((place) => join(place, 'LICENSE')).find((path) => existsSync(path))
  if (file === undefined) throw new Error(`The licence of Node lies in none of ${places.join(', ')}.`)
  return readFileSync(file, 'utf8')
}

function licenceOf(folder: string): Licensed {
  const { name, version, license, author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  if (typeof license !== 'string') throw new Error(`The package.json of ${name} names no licence.`)
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice|copying)(\.|$)/i.test(file))
  const text = files.map((file) => readFileSync(join(folder, file), 'utf8')).join('\n')
  // A few packages only name theirs.
  return { name, version, licence: license, text: text === '' ? `By ${author?.name ?? author ?? name}.` : text }
}

function licencesOfPages(pages: string): Licensed[] {
  const listed = JSON.parse(readFileSync(join(pages, '.licences.json'), 'utf8'))
  return listed.map(
    ({ name, version, identifier, text }: Record<'name' | 'version' | 'identifier' | 'text', string>) => {
      if (!identifier) throw new Error(`The package.json of ${name} names no licence.`)
      return { name, version, licence: identifier, text: text ?? '' }
    },
  )
}
