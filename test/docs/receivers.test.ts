import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { codeOf, readPage } from './pages.ts'

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

test('receivers.md verifies in Node; the code in other languages is that of the reference receivers', async (t) => {
  const [code = ''] = codeOf(page, 'js')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-receivers-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'verify.mjs')
  writeFileSync(file, code)
  const { verify } = (await import(file)) as { verify(secret: string, headers: object, body: Buffer): boolean }
  for (const { args, genuine } of cases) {
    const [key, id, timestamp, signature, content] = args
    const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature }
    assert.equal(verify(key, headers, Buffer.from(content)), genuine, JSON.stringify(args))
  }
})

test('the values to check with in receivers.md are right', () => {
  const { text } = readPage(page)
  const value = (name: string) => new RegExp(`^\\| ${name} \\| \`(.*)\` \\|$`, 'm').exec(text)?.[1] ?? ''
  const key = Buffer.from(value('secret').replace('whsec_', ''), 'base64')
  const content = `${value('`webhook-id`')}.${value('`webhook-timestamp`')}.${value('body')}`
  const signature = createHmac('sha256', key).update(content).digest('base64')
  assert.equal(value('`webhook-signature`'), `v1,${signature}`)
})
