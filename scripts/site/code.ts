import { htmlOf } from './markdown.ts'

/** The form of a comment, by the word behind the fence; other languages have `//`. */
const comments: Readonly<Record<string, RegExp>> = {
  sh: /(?<=^|\s)#.*/,
  bash: /(?<=^|\s)#.*/,
  yaml: /(?<=^|\s)#.*/,
  toml: /(?<=^|\s)#.*/,
  ini: /^[#;].*/,
  python: /#.*/,
  py: /#.*/,
  ruby: /#.*/,
  rb: /#.*/,
  nginx: /(?<=^|\s)#.*/,
  dockerfile: /^#.*/,
  sql: /--.*/,
  json: /(?!)/,
  http: /(?!)/,
}
const slashes = /(?<![:\w])\/\/.*/
const strings = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/

/** Code as HTML, with its strings and its comments marked. Text without a language stays plain. */
export function colored(language: string, code: string): string {
  if (language === '' || language === 'text') return htmlOf(code)
  const pattern = new RegExp(`(${strings.source})|(${(comments[language] ?? slashes).source})`, 'gm')
  let out = ''
  let end = 0
  for (const match of code.matchAll(pattern)) {
    out += `${htmlOf(code.slice(end, match.index))}<span class="${match[1] === undefined ? 'c' : 's'}">${htmlOf(match[0])}</span>`
    end = match.index + match[0].length
  }
  return out + htmlOf(code.slice(end))
}
