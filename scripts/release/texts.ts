import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Licensed } from '../licences.ts'

const root = join(import.meta.dirname, '../..')

/** The section of CHANGELOG.md for a version, without its heading. */
export function releaseNotes(version: string, changelog = readFileSync(join(root, 'CHANGELOG.md'), 'utf8')): string {
  const sections = changelog.split(/^(?=## )/m)
  const section = sections.find((text) => text.startsWith(`## ${version} `) || text.startsWith(`## ${version}\n`))
  if (section === undefined) throw new Error(`CHANGELOG.md has no section "## ${version}".`)
  return section.split('\n').slice(1).join('\n').trim()
}

/** The packages inside the program, as CycloneDX: scanners of vulnerabilities read it, since an installation shows none of them. */
export function billOfMaterials(version: string, packages: readonly Licensed[], node: string): string {
  const component = (name: string, of: string, licence: string) => ({
    type: 'library',
    name,
    version: of,
    purl: `pkg:npm/${name.replace('@', '%40')}@${of}`,
    licenses: [{ expression: licence }],
  })
  const inside = [
    { type: 'platform', name: 'node', version: node, purl: `pkg:generic/node@${node}` },
    ...packages.map((each) => component(each.name, each.version, each.licence)),
  ]
  const document = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { ...component('sluice', version, 'Apache-2.0'), type: 'application' } },
    components: inside,
  }
  return `${JSON.stringify(document, undefined, 2)}\n`
}

export interface Download {
  /** `linux-x64`, as in the name of its archive. */
  readonly platform: string
  readonly file: string
  readonly digest: string
}

const brewed = [
  { platform: 'darwin-arm64', block: 'on_macos', cpu: 'arm' },
  { platform: 'linux-x64', block: 'on_linux', cpu: 'intel' },
  { platform: 'linux-arm64', block: 'on_linux', cpu: 'arm' },
]

/** The Homebrew formula, for those of its platforms that were built. */
export function formula(version: string, base: string, downloads: readonly Download[]): string {
  const parts = brewed.flatMap(({ platform, block, cpu }) => {
    const found = downloads.find((download) => download.platform === platform)
    if (found === undefined) return []
    const lines = [`    on_${cpu} do`, `      url "${base}/${found.file}"`, `      sha256 "${found.digest}"`, '    end']
    return [`  ${block} do\n${lines.join('\n')}\n  end`]
  })
  return `class Sluice < Formula
  desc "Webhook delivery that loses nothing and floods nobody"
  homepage "https://github.com/OWNER/sluice"
  version "${version}"
  license "Apache-2.0"

${parts.join('\n\n')}

  def install
    bin.install "sluice"
    doc.install "THIRD-PARTY-LICENSES"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sluice --version")
  end
end
`
}
