import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHmac, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { codeOf, readPage } from './pages.ts'
import { hasPrograms } from './shell.ts'

const run = promisify(execFile)
const page = 'docs/receivers.md'
const secret = `whsec_${randomBytes(24).toString('base64')}`
const body = '{"invoice":17,"total":249.00,"text":"ä"}'

/** A request and whether it is genuine. */
interface Case {
  readonly args: readonly [secret: string, id: string, timestamp: string, signature: string, body: string]
  readonly genuine: boolean
}

function signed(timestamp: string, key = secret): string {
  return new Webhook(key).sign('msg_1', new Date(Number(timestamp) * 1000), body)
}

const now = String(Math.floor(Date.now() / 1000))
const old = String(Math.floor(Date.now() / 1000) - 3600)
const other = `whsec_${randomBytes(24).toString('base64')}`
const cases: readonly Case[] = [
  { args: [secret, 'msg_1', now, signed(now), body], genuine: true },
  { args: [secret, 'msg_1', now, `${signed(now, other)} v1a,AAAA ${signed(now)}`, body], genuine: true },
  { args: [secret, 'msg_1', now, signed(now), `${body} `], genuine: false },
  { args: [secret, 'msg_2', now, signed(now), body], genuine: false },
  { args: [secret, 'msg_1', old, signed(old), body], genuine: false },
  { args: [secret, 'msg_1', 'soon', signed(now), body], genuine: false },
  { args: [secret, 'msg_1', now, signed(now, other), body], genuine: false },
  { args: [secret, 'msg_1', now, 'v1,ä', body], genuine: false },
  { args: [secret, 'msg_1', now, '', body], genuine: false },
]

/** The arguments of all cases, five each; a program prints true or false for every five. */
const args = cases.flatMap((each) => each.args)

interface Language {
  readonly name: string
  /** The programs that run it. */
  readonly needs: readonly string[]
  readonly file: string
  /** A whole program, made from the page's code. */
  program(code: string): string
  command(file: string, folder: string): readonly string[]
}

const languages: readonly Language[] = [
  {
    name: 'js',
    needs: [],
    file: 'verify.mjs',
    program: (code) => `${code}
const args = process.argv.slice(2)
for (let i = 0; i < args.length; i += 5) {
  const headers = { 'webhook-id': args[i + 1], 'webhook-timestamp': args[i + 2], 'webhook-signature': args[i + 3] }
  console.log(verify(args[i], headers, Buffer.from(args[i + 4])))
}`,
    command: (file) => [process.execPath, file],
  },
  {
    name: 'python',
    needs: ['python3'],
    file: 'verify.py',
    program: (code) => `import sys
${code}
args = sys.argv[1:]
for i in range(0, len(args), 5):
    headers = {"webhook-id": args[i + 1], "webhook-timestamp": args[i + 2], "webhook-signature": args[i + 3]}
    print(str(verify(args[i], headers, args[i + 4].encode())).lower())`,
    command: (file) => ['python3', file],
  },
  {
    name: 'go',
    needs: ['go'],
    file: 'verify.go',
    program: (code) => `${code.replace('import (', 'import (\n\t"fmt"\n\t"os"')}
func main() {
	args := os.Args[1:]
	for i := 0; i < len(args); i += 5 {
		header := http.Header{}
		header.Set("webhook-id", args[i+1])
		header.Set("webhook-timestamp", args[i+2])
		header.Set("webhook-signature", args[i+3])
		fmt.Println(Verify(args[i], header, []byte(args[i+4])))
	}
}`,
    command: (file) => ['go', 'run', file],
  },
  {
    name: 'ruby',
    needs: ['ruby'],
    file: 'verify.rb',
    program: (code) => `${code}
ARGV.each_slice(5) do |secret, id, timestamp, signature, body|
  headers = { 'webhook-id' => id, 'webhook-timestamp' => timestamp, 'webhook-signature' => signature }
  puts verify(secret, headers, body)
end`,
    command: (file) => ['ruby', file],
  },
  {
    name: 'php',
    needs: ['php'],
    file: 'verify.php',
    program: (code) => `${code}
foreach (array_chunk(array_slice($argv, 1), 5) as [$secret, $id, $timestamp, $signature, $body]) {
    $headers = ['webhook-id' => $id, 'webhook-timestamp' => $timestamp, 'webhook-signature' => $signature];
    echo verify($secret, $headers, $body) ? 'true' : 'false', "\\n";
}`,
    command: (file) => ['php', file],
  },
  {
    name: 'java',
    needs: ['java', 'javac'],
    file: 'Main.java',
    // The class with main comes first in a file that is run as it is.
    program: (code) => {
      const start = code.indexOf('final class Webhook')
      return `${code.slice(0, start)}
class Main {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 5) {
            byte[] body = args[i + 4].getBytes(StandardCharsets.UTF_8);
            System.out.println(Webhook.verify(args[i], args[i + 1], args[i + 2], args[i + 3], body));
        }
    }
}
${code.slice(start)}`
    },
    command: (file) => ['java', '-Dfile.encoding=UTF-8', '-Dsun.jnu.encoding=UTF-8', file],
  },
]

for (const language of languages) {
  const skip = reasonToSkip(language)
  test(`receivers.md verifies in ${language.name}`, { skip }, async (t) => {
    const [code = ''] = codeOf(page, language.name)
    const folder = folderOf(t)
    const file = join(folder, language.file)
    writeFileSync(file, language.program(code))
    const [command = '', ...rest] = language.command(file, folder)
    const env = { ...process.env, LC_ALL: 'C.UTF-8', GOFLAGS: '-mod=mod', GO111MODULE: 'off' }
    const { stdout } = await run(command, [...rest, ...args], { cwd: folder, env })
    assert.deepEqual(
      stdout.trim().split('\n'),
      cases.map(({ genuine }) => String(genuine)),
    )
  })
}

test('the values to check with in receivers.md are right', () => {
  const { text } = readPage(page)
  const value = (name: string) => new RegExp(`^\\| ${name} \\| \`(.*)\` \\|$`, 'm').exec(text)?.[1] ?? ''
  const key = Buffer.from(value('secret').replace('whsec_', ''), 'base64')
  const content = `${value('`webhook-id`')}.${value('`webhook-timestamp`')}.${value('body')}`
  const signature = createHmac('sha256', key).update(content).digest('base64')
  assert.equal(value('`webhook-signature`'), `v1,${signature}`)
})

/** Go compiles its standard library first, which takes minutes on a busy machine: RECEIVER_LANGUAGES=all includes it. */
function reasonToSkip({ name, needs }: Language): string | false {
  if (name === 'go' && process.env.RECEIVER_LANGUAGES !== 'all') return 'runs with RECEIVER_LANGUAGES=all'
  return hasPrograms(...needs) ? false : `needs ${needs.join(' and ')}`
}

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-receivers-'))
  t.after(() => rmSync(folder, { recursive: true }))
  return folder
}
