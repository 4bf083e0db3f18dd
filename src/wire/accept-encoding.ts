/** The encodings that a client takes, by its header `accept-encoding`. */
export function acceptedEncodings(header: string | readonly string[] | undefined): ReadonlySet<string> {
  const ranges = String(header ?? '')
    .toLowerCase()
    .split(',')
    .map((range) => range.trim())
  return new Set(
    ranges.filter((range) => !/;\s*q=0(\.0*)?$/.test(range)).map((range) => range.split(';', 1)[0] as string),
  )
}
