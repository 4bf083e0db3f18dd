/** JSON text of a value that may be missing. */
export function toJson(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value)
}
