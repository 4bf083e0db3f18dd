import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { codeOf } from '../docs/pages.ts'
import { atEnd } from '../e2e/at-end.ts'
import { Client } from '../e2e/client.ts'
import { eventually } from '../e2e/eventually.ts'
import { freePort } from '../e2e/free-port.ts'
import { sqlitePlace } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'

/** A reference receiver: one file, run as its first lines say. */
interface Reference {
  readonly file: string
  /** The language of its code block in docs/receivers.md. */
  readonly language: string
  /** A command that succeeds where the receiver can run. */
  readonly needs: readonly string[]
  /** The command that runs the file in a folder of its own. */
  command(port: number): readonly string[]
  /** A command that compiles first, which takes minutes on a busy machine: RECEIVER_LANGUAGES=all includes it. */
  readonly build?: readonly string[]
}

const folder = join(import.meta.dirname, '../../receiver/reference')
const cache = join(tmpdir(), 'sluice-reference-build')

const references: readonly Reference[] = [
  {
    file: 'receiver.py',
    language: 'python',
    needs: ['python3', '-c', 'import flask'],
    command: () => ['python3', 'receiver.py'],
  },
  {
    file: 'receiver.rb',
    language: 'ruby',
    needs: ['ruby', '-rwebrick', '-e', '1'],
    command: () => ['ruby', 'receiver.rb'],
  },
  {
    file: 'receiver.php',
    language: 'php',
    needs: ['php', '-v'],
    command: (port) => ['php', '-S', `127.0.0.1:${port}`, 'receiver.php'],
  },
  { file: 'Receiver.java', language: 'java', needs: ['javac', '-version'], command: () => ['java', 'Receiver.java'] },
  {
    file: 'receiver.go',
    language: 'go',
    needs: ['go', 'version'],
    build: ['go', 'build', '-o', 'receiver', 'receiver.go'],
    command: () => ['./receiver'],
  },
  {
    file: 'receiver.rs',
    language: 'rust',
    // Fails where the crates were never fetched.
    needs: ['cargo', 'tree', '--offline', '--locked', '--manifest-path', join(folder, 'Cargo.toml')],
    build: ['cargo', 'build', '--offline', '--locked', '--quiet'],
    command: () => [join(cache, 'debug/receiver')],
  },
]

function reasonToSkip({ file, needs, build }: Reference): string | false {
  if (build !== undefined && process.env.RECEIVER_LANGUAGES !== 'all') return `${file} runs with RECEIVER_LANGUAGES=all`
  return spawnSync(needs[0] as string, needs.slice(1)).status === 0 ? false : `${file} needs: ${needs.join(' ')}`
}

/** A request as Sluice sent it. */
interface Recorded {
  readonly headers: Record<string, string>
  readonly body: Buffer
}

/** A running reference receiver behind a proxy that records the requests of Sluice. */
interface Running {
  readonly url: string
  readonly direct: string
  readonly recorded: Recorded[]
  handled(): string[]
}

async function start(t: TestContext, reference: Reference, secret: string): Promise<Running> {
  const place = mkdtempSync(join(tmpdir(), 'sluice-reference-'))
  atEnd(t, () => rmSync(place, { recursive: true, force: true }))
  for (const file of [reference.file, ...(reference.language === 'rust' ? ['Cargo.toml', 'Cargo.lock'] : [])]) {
    copyFileSync(join(folder, file), join(place, file))
  }
  mkdirSync(join(place, 'handled'))
  const port = await freePort()
  const env = {
    ...process.env,
    WEBHOOK_SECRET: secret,
    PORT: String(port),
    HANDLED_FOLDER: join(place, 'handled'),
    CARGO_TARGET_DIR: cache,
    GO111MODULE: 'off',
    PYTHONUNBUFFERED: '1',
  }
  const { build } = reference
  if (build !== undefined) await promisify(execFile)(build[0] as string, build.slice(1), { cwd: place, env })
  const [command = '', ...args] = reference.command(port)
  const child = spawn(command, args, { cwd: place, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = { out: '', errors: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    said.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said.errors += text
  })
  const exited = once(child, 'exit')
  atEnd(t, async () => {
    child.kill('SIGKILL')
    await exited
  })
  const direct = `http://127.0.0.1:${port}/`
  await eventually(`${reference.file} listens`, async () => {
    if (child.exitCode !== null) throw new Error(`${reference.file} ended: ${said.errors}`)
    return fetch(direct, { method: 'POST' }).then(
      () => true,
      () => false,
    )
  })
  const recorded: Recorded[] = []
  const proxy = createServer(async (request, response) => {
    const body = await buffer(request)
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(([name]) => /^(webhook-|content-type)/.test(name)),
    ) as Record<string, string>
    recorded.push({ headers, body })
    const answer = await post(direct, { headers, body })
    response.writeHead(answer.status).end()
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  atEnd(t, () => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/`,
    direct,
    recorded,
    handled: () => [...said.out.matchAll(/^handled (\S+)$/gm)].map(([, id = '']) => id),
  }
}

function post(url: string, { headers, body }: Recorded): Promise<Response> {
  return fetch(url, { method: 'POST', headers, body: new Uint8Array(body) })
}

test('reference receivers, in front of a real Sluice', async (t) => {
  const { store } = await sqlitePlace(t)
  const program = await Program.start(t, 'serve', store)
  const client = new Client(program.api)
  atEnd(t, () => client.close())

  async function call(path: string): Promise<void> {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const answer = await fetch(`${program.api}${path}`, { method: 'POST', headers, body: '{}' })
    assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.text()}`)
  }

  for (const reference of references) {
    await t.test(
      `${reference.file}: good, tampered, stale, replayed, duplicate, rotated`,
      {
        skip: reasonToSkip(reference),
      },
      async (t) => {
        const secret = `whsec_${Buffer.alloc(24, reference.file).toString('base64')}`
        const app = reference.language
        const { url, direct, recorded, handled } = await start(t, reference, secret)
        await client.createApplication(app)
        const endpoint = await client.createEndpoint(app, { url, secret })
        const publish = async (payload: string) => {
          const outcome = await client.publish(app, 'invoice.paid', Buffer.from(payload))
          assert.ok(outcome.state === 'accepted')
          return outcome.id
        }
        const delivered = (id: string, attempts: number) =>
          eventually('it is delivered', async () => {
            const list = await client.attempts(app, id)
            return list.filter(({ code }) => code === 'delivered').length === attempts && list.length === attempts
          })

        const body = '{"invoice":17,"total":249.00,"text":"ä🙂"}'
        const id = await publish(body)
        await delivered(id, 1)
        assert.deepEqual(handled(), [id])
        const genuine = recorded[0] as Recorded
        assert.equal(genuine.body.toString(), body, 'the bytes are those that were published')

        const answerTo = async (headers: Record<string, string>, bytes = genuine.body) =>
          (await post(direct, { headers: { ...genuine.headers, ...headers }, body: bytes })).status
        const seconds = Number(genuine.headers['webhook-timestamp'])
        const signedAt = (at: number, key = secret) => ({
          'webhook-timestamp': String(at),
          'webhook-signature': new Webhook(key).sign(id, new Date(at * 1000), body),
        })
        const other = `whsec_${Buffer.alloc(24, 'other').toString('base64')}`
        const refused: Readonly<Record<string, () => Promise<number>>> = {
          'tampered: other bytes': () => answerTo({}, Buffer.from(body.replace('249.00', '249'))),
          'tampered: another id': () => answerTo({ 'webhook-id': 'msg_other' }),
          'tampered: another secret': () => answerTo(signedAt(seconds, other)),
          'tampered: no signature': () => answerTo({ 'webhook-signature': '' }),
          'tampered: garbage': () => answerTo({ 'webhook-signature': 'v1 v1,, v1,%%% =, v1a,AAAA' }),
          'tampered: a timestamp that is no number': () => answerTo({ 'webhook-timestamp': '1e9; drop' }),
          'stale: signed six minutes ago': () => answerTo(signedAt(seconds - 360)),
          'stale: signed six minutes ahead': () => answerTo(signedAt(seconds + 360)),
          'replayed: an old request with a new timestamp': () =>
            answerTo({ ...signedAt(seconds - 360), 'webhook-timestamp': String(seconds) }),
        }
        for (const [name, ask] of Object.entries(refused)) assert.equal(await ask(), 401, name)

        assert.equal(await answerTo({}), 200, 'the same request again')
        assert.equal(await answerTo(signedAt(seconds - 1)), 200, 'another attempt of the same message')
        const chunked = { ...genuine, body: new Blob([new Uint8Array(genuine.body)]).stream(), duplex: 'half' }
        const passedOn = await fetch(new URL('webhooks', direct), { method: 'POST', ...chunked } as RequestInit)
        assert.equal(passedOn.status, 200, 'a proxy made chunks of the body, at another path')
        assert.ok([401, 404, 405].includes((await fetch(direct)).status), 'a GET is refused')
        await call(`/app/${app}/msg/${id}/endpoint/${endpoint.id}/resend`)
        await delivered(id, 2)
        assert.deepEqual(handled(), [id], 'the work was done once')

        await call(`/app/${app}/endpoint/${endpoint.id}/secret/rotate`)
        const next = await publish('{"n":2}')
        await delivered(next, 1)
        assert.equal(recorded.at(-1)?.headers['webhook-signature']?.split(' ').length, 2, 'both secrets sign')
        assert.deepEqual(handled(), [id, next])

        // Last, because a server may reset the connection of a body that it did not read.
        const large = Buffer.alloc(3 * 1024 * 1024, 32)
        assert.equal(await answerTo({}, large).catch(() => 413), 413)
      },
    )
  }
})

test('the code in receivers.md is that of the reference receivers', () => {
  for (const { file, language } of references) {
    const [code = ''] = codeOf('docs/receivers.md', language)
    // The file imports more than the function alone needs.
    const lines = code.trim().split('\n')
    const start = lines.findIndex((line) =>
      /^(def|func|fn|function|final class|#|\/\/|\/\*\*|\/\/\/)/.test(line.replace('<?php', '')),
    )
    const own = lines.slice(start).join('\n')
    assert.ok(start >= 0 && own.length > 300, file)
    assert.ok(readFileSync(join(folder, file), 'utf8').includes(own), `docs/receivers.md has other code than ${file}`)
  }
})
