import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { run } from './run.ts'

const root = join(import.meta.dirname, '../..')

/** The names that Debian has for processors. */
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

export interface DebianInput {
  readonly executable: string
  readonly licences: string
  readonly processor: string
  readonly version: string
  /** The folder of the package. */
  readonly out: string
}

/**
 * A Debian package with the executable, its units, its user and `/etc/sluice/sluice.env`, which an upgrade keeps. No unit is
 * started: the settings come first.
 */
export function debianPackage({ executable, licences, processor, version, out }: DebianInput): string {
  const architecture = architectures[processor]
  if (architecture === undefined) throw new Error(`Debian has no name for the processor ${processor}.`)
  const place = mkdtempSync(join(tmpdir(), 'sluice-deb-'))
  try {
    const put = (path: string, content: string | Buffer, mode = 0o644): void => {
      mkdirSync(dirname(join(place, path)), { recursive: true, mode: 0o755 })
      writeFileSync(join(place, path), content)
      chmodSync(join(place, path), mode)
    }
    mkdirSync(join(place, 'usr/bin'), { recursive: true, mode: 0o755 })
    cpSync(executable, join(place, 'usr/bin/sluice'))
    chmodSync(join(place, 'usr/bin/sluice'), 0o755)
    for (const unit of units) {
      const text = readFileSync(join(root, 'deploy/systemd', unit), 'utf8')
      put(`usr/lib/systemd/system/${unit}`, text.replaceAll('/usr/local/bin/sluice', '/usr/bin/sluice'))
    }
    put('usr/lib/sysusers.d/sluice.conf', 'u sluice - "Sluice webhook delivery" /var/lib/sluice\n')
    put('etc/sluice/sluice.env', readFileSync(join(root, 'deploy/systemd/sluice.env')), 0o600)
    put('usr/share/doc/sluice/copyright', readFileSync(join(root, 'LICENSE')))
    put('usr/share/doc/sluice/THIRD-PARTY-LICENSES', readFileSync(licences))
    put('DEBIAN/control', control(version, architecture))
    put('DEBIAN/conffiles', '/etc/sluice/sluice.env\n')
    put('DEBIAN/postinst', postinst, 0o755)
    put('DEBIAN/prerm', prerm, 0o755)
    const file = join(out, `sluice_${version}_${architecture}.deb`)
    run('dpkg-deb', ['--root-owner-group', '-Zgzip', '--build', place, file], root)
    return file
  } finally {
    rmSync(place, { recursive: true })
  }
}

const units = ['sluice.service', 'sluice-worker@.service', 'sluice-drain.service', 'sluice-drain.timer']

const control = (version: string, architecture: string): string => `Package: sluice
Version: ${version}
Architecture: ${architecture}
Maintainer: Sluice maintainers <OWNER@users.noreply.github.com>
Section: net
Priority: optional
Depends: libc6 (>= 2.28), libstdc++6, systemd
Homepage: https://github.com/OWNER/sluice
Description: webhook delivery that loses nothing and floods nobody
 Sluice stores an event durably, fans it out to each subscribed endpoint, and
 delivers it at a pace that the endpoint can take. It runs on one SQLite file,
 or on Postgres with many machines.
`

const postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  systemd-sysusers sluice.conf
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ -n "$2" ]; then
      systemctl try-restart sluice.service || true
    else
      echo "Edit /etc/sluice/sluice.env, then: systemctl enable --now sluice"
    fi
  fi
fi
`

const prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now sluice.service sluice-drain.timer || true
fi
`
