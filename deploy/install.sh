#!/bin/sh
# Installs the executable of Sluice, after its checksum was verified.
#
#     curl --proto '=https' --tlsv1.2 -fsSLO https://github.com/OWNER/sluice/releases/latest/download/install.sh
#     sh install.sh [--to DIRECTORY]
#
# DIRECTORY is /usr/local/bin, or ~/.local/bin where you may not write to that. INSTALL_FROM names a mirror.
set -eu

version='@VERSION@'
from="${INSTALL_FROM:-https://github.com/OWNER/sluice/releases/download/v$version}"
to=''

fail() {
  echo "sluice: $*" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case "$1" in
    --to)
      [ $# -ge 2 ] || fail '--to needs a directory'
      to="$2"
      shift 2
      ;;
    *) fail "unknown argument $1; the only one is --to DIRECTORY" ;;
  esac
done

if [ -z "$to" ]; then
  if [ -w /usr/local/bin ]; then to=/usr/local/bin; else to="$HOME/.local/bin"; fi
fi

case "$(uname -s)" in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "no executable is built for $(uname -s); use npm install --global sluice" ;;
esac
case "$(uname -m)" in
  x86_64 | amd64) processor=x64 ;;
  aarch64 | arm64) processor=arm64 ;;
  *) fail "no executable is built for the processor $(uname -m); use npm install --global sluice" ;;
esac
libc=''
if [ "$system" = linux ] && ls /lib/ld-musl-* >/dev/null 2>&1 && ! ls /lib*/ld-linux-* /lib/*/ld-linux-* >/dev/null 2>&1; then
  libc=-musl
fi
archive="sluice-$version-$system-$processor$libc.tar.gz"

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

fetch() {
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL --retry 3 -o "$folder/$1" "$from/$1" || fail "$from/$1 cannot be fetched"
  elif command -v wget >/dev/null 2>&1; then
    wget -q -O "$folder/$1" "$from/$1" || fail "$from/$1 cannot be fetched"
  else
    fail 'neither curl nor wget is installed'
  fi
}

fetch SHA256SUMS
grep -q "  $archive\$" "$folder/SHA256SUMS" || fail "release $version has no $archive; use npm install --global sluice"
fetch "$archive"
(
  cd "$folder"
  grep "  $archive\$" SHA256SUMS >expected
  if command -v sha256sum >/dev/null 2>&1; then sha256sum -c expected >/dev/null 2>&1; else shasum -a 256 -c expected >/dev/null 2>&1; fi
) || fail "the checksum of $archive is wrong; nothing was installed"

tar -xzf "$folder/$archive" -C "$folder" sluice
mkdir -p "$to"
# A name of its own first: a server that runs keeps its file.
cp "$folder/sluice" "$to/.sluice-$version" && chmod 755 "$to/.sluice-$version" && mv "$to/.sluice-$version" "$to/sluice"
echo "Sluice $version is installed: $to/sluice"
case ":$PATH:" in
  *":$to:"*) echo 'Start it with: sluice serve --local' ;;
  *) echo "$to is not in PATH. Start it with: $to/sluice serve --local" ;;
esac
