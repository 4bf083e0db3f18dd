import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ConfigError } from './config.ts'

const certificate = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

/** The certificates of the file that `caFile` names. Throws a ConfigError when it has none, or a broken one. */
export function readAuthorities(file: string): readonly string[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new ConfigError([`caFile: ${file} cannot be read (${(error as NodeJS.ErrnoException).code})`])
  }
  const found = text.match(certificate) ?? []
  if (found.length === 0) throw new ConfigError([`caFile: ${file} contains no certificate in PEM form`])
  for (const [i, pem] of found.entries()) {
    try {
      new X509Certificate(pem)
    } catch {
      throw new ConfigError([`caFile: certificate ${i + 1} of ${file} cannot be read`])
    }
  }
  return found
}
