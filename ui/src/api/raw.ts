/**
 * The text of one field of a JSON object as it was sent. `JSON.parse` would change payloads: `1.0` becomes 1, and long
 * integers lose digits. Undefined when the object has no such field.
 */
export function rawField(json: string, name: string): string | undefined {
  let depth = 0
  let key: string | undefined
  let start = -1
  const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g
  for (const { 0: token, index } of json.matchAll(tokens)) {
    const isInside = depth > 1
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    if (isInside) continue
    if (token === ':' && key === name) start = index + 1
    else if (start >= 0 && ((token === ',' && depth === 1) || depth === 0)) return json.slice(start, index).trim()
    else if (token.startsWith('"')) key = JSON.parse(token) as string
  }
  return undefined
}
