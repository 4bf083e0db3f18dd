import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { styleText } from 'node:util'
import { cleanTerminal, toJson } from '../../src/cli/terminal.ts'
import { systemTerminal } from '../../src/runtime/process.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { type Served, served, workplace } from './program.ts'

/** Erases the screen, sets the title, links, fills the clipboard, rings, turns text round, and ends the line. */
const hostile = [
  ...['\x1b[2J', '\x1b]0;owned\x07', '\x1b]8;;http://evil/\x1b\\', '\x1b]52;c;cm0gLXJm\x07', '\b\b\b', '\x7f'],
  ...['\x9b31m', '\x9d0;owned\x9c', '\u202a\u202b\u202c\u202d\u202e', '\u2066\u2067\u2068\u2069', '\u200e\u200f\u061c'],
  ...['\u2028\u2029', '\ufeff\u200b\u2060', '\u{e0041}', '\r', '\n'],
].join('x')
/** All that would act on a terminal, but for the line feeds and tabs that lay text out. */
const acting = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\n\t]]/v
const text = `Evil${hostile}FORGED LINE`
/** What a name of an application, a key or a schedule may hold of it: names refuse control characters. */
const name = text.replace(/\p{Cc}/gu, '')

describe('names that would steer a terminal', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
  })

  test('reach it through no command, and come whole as JSON', async (t) => {
    const receiver = await Receiver.listen(t)
    receiver.behave('/', () => ({ status: 500 }))
    const { sluice, json } = place
    assert.match(await sluice(['app', 'create', text, '--uid', 'evil'], 2), /control characters/)
    const app = (await json(['app', 'create', name, '--uid', 'evil'])).id as string
    const retry = '{"waits":{"kind":"list","ms":[]}}'
    const endpoint = [...['endpoint', 'create', 'evil', `${receiver.url}/`, '--uid', 'e'], '--retry', retry]
    await json([...endpoint, '--description', text])
    await sluice(['event-type', 'create', 'x.y', text])
    await sluice(['key', 'create', name, '--scope', 'read'])
    await sluice(['schedule', 'create', 'evil', '0 0 1 1 *', 'x.y', JSON.stringify({ text }), '--uid', 's'])
    await json(['send', 'evil', 'x.y', JSON.stringify({ text })])
    const [dead] = await eventually('a dead letter', async () => {
      const found = await json<{ msgId: string }[]>('dead list evil')
      return found.length > 0 && found
    })

    const commands = [
      ...['app list', 'app get evil', 'app update evil', 'endpoint list evil', 'endpoint get evil e', 'audit list'],
      ...[
        'event-type list',
        'event-type get x.y',
        'key list',
        'schedule list evil',
        'schedule show evil s',
        'task list',
      ],
      ...['messages evil', `messages evil ${dead?.msgId}`, 'attempts evil', 'why evil'],
      ...['why evil --endpoint e', `why evil ${dead?.msgId} e`, 'lane evil e', 'dead list', 'dead list evil'],
      ...[`dead show evil ${dead?.msgId} e`, 'dead export evil', 'region list evil', 'help', 'app get nobody'],
    ]
    let shown = 0
    for (const command of commands) {
      for (const args of [command, `${command} --json`]) {
        const { out, err } = await place.try(args)
        assert.doesNotMatch(args.includes('export') ? '' : out + err, acting, args)
        assert.doesNotMatch(out, /^FORGED/m, args)
        if (out.includes('Evil')) shown++
      }
    }
    assert.ok(shown >= 20, `${shown} outputs show a name`)
    assert.equal((await json('app get evil')).name, name)
    assert.equal((await json<{ id: string; name: string }[]>('app list')).find(({ id }) => id === app)?.name, name)
  })
})

/** A terminal that remembers, and shows colours. */
function remembering(columns?: number) {
  const said: string[] = []
  const remember = (text: string) => void said.push(text)
  const terminal = cleanTerminal(
    {
      ...systemTerminal,
      columns,
      print: remember,
      printError: remember,
      progress: remember,
      write: async (chunk) => remember(Buffer.from(chunk as string).toString()),
      style: (format, text) => styleText(format, text, { validateStream: false }),
    },
    systemRandomText,
  )
  return { terminal, said }
}

test('the colours of the program are shown, and names bring none of their own', () => {
  const { terminal, said } = remembering()
  terminal.print(`${terminal.style('red', `a${hostile}b`)} \x1b[31mc`)
  const [line] = said as [string]
  assert.equal(line.replace('\x1b[31m', '').replace('\x1b[39m', '').match(new RegExp(acting, 'v')), null, line)
  assert.ok(line.startsWith('\x1b[31ma') && line.includes('·[31mc'))
})

test('every way out is cleaned', async () => {
  const { terminal, said } = remembering(80)
  terminal.print(hostile)
  terminal.printError(hostile)
  terminal.progress(hostile)
  await terminal.write(Buffer.from(JSON.stringify({ name: hostile })))
  assert.equal(said.length, 4)
  for (const text of said) assert.doesNotMatch(text, acting)
  assert.deepEqual(JSON.parse(said[3] as string), { name: hostile }, 'lines of JSON lose nothing')
})

test('bytes go to a pipe or a file as they are', async () => {
  const { terminal, said } = remembering()
  await terminal.write(Buffer.from(hostile))
  assert.deepEqual(said, [hostile])
})

test('JSON has what it has, in characters that act on nothing', () => {
  assert.doesNotMatch(toJson({ name: hostile }, 2), acting)
  assert.deepEqual(JSON.parse(toJson({ name: hostile }, 2)), { name: hostile })
})

test('words of scripts that need joiners stay whole', () => {
  const { terminal, said } = remembering()
  terminal.print('می\u200cخواهم')
  assert.deepEqual(said, ['می\u200cخواهم'])
})
