import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openLog } from '../../src/runtime/log.ts'
import type { LogFormat } from '../../src/runtime/log-settings.ts'

function logged(logFormat: LogFormat | null, isTerminal: boolean, write: (log: ReturnType<typeof openLog>) => void) {
  let out = ''
  const stream = {
    write: (line: string) => {
      out += line
    },
  }
  write(openLog({ logLevel: 'info', logFormat }, stream, isTerminal))
  return out
}

describe('the log', () => {
  test('writes text on a terminal and JSON elsewhere; the setting decides both', () => {
    const hello = (log: ReturnType<typeof openLog>) => log.warn({ listen: '127.0.0.1:1', n: 2 }, 'hello')
    const isText = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z warn {2}hello \(listen=127\.0\.0\.1:1, n=2\)\n$/
    assert.match(logged(null, true, hello), isText)
    assert.match(logged('text', false, hello), isText)
    for (const json of [logged(null, false, hello), logged('json', true, hello)]) {
      assert.equal(JSON.parse(json).msg, 'hello')
    }
  })

  test('shows the trace of an error below the sentence, and no control characters of data', () => {
    const text = logged('text', true, (log) => log.error({ err: new Error('a\x1b[2Jb'), path: '/\x07' }, 'c\x1bd'))
    assert.match(text, /^\S+ \S+Z error c·d \(path=\/·\)\n {2}Error: a·\[2Jb\n {6}at /)
    assert.ok(!text.includes('\x1b'))
  })
})
