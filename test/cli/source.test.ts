import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { type Served, served, workplace } from './program.ts'

const secret = "It's a Secret to Everybody"

/** Sends an event as GitHub does. */
function push(url: string, body: string, key = secret, change: Record<string, string> = {}): Promise<Response> {
  const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`
  const headers = { 'x-github-event': 'push', 'x-hub-signature-256': signature, ...change }
  return fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
}

interface Shown {
  readonly [field: string]: unknown
  readonly settings: Readonly<Record<string, unknown>>
}

const statusOf = async (answer: Promise<Response>) => (await answer).status

describe('sources at the command line', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
    await place.sluice('app create Shop --uid shop')
  })

  const create = (uid: string, more = '') =>
    place.json<{ id: string; url: string; secret: string | null }>([
      ...`source create github --app shop --uid ${uid}${more}`.split(' '),
      ...['--secret', secret],
    ])

  test('create prints the URL to paste, the steps at the provider, and how to see the first event', async () => {
    const { sluice, url } = place
    const given = await sluice(`source create github --app shop --uid pasted --secret ${'s'.repeat(20)}`)
    const pasted = /^url +(\S+)$/m.exec(given)?.[1] ?? ''
    assert.ok(pasted.startsWith(`${url}/in/in_`), pasted)
    assert.match(given, /^application +shop\nprovider +github\nname +GitHub\nurl .*\nsecret +set\n/m)
    assert.doesNotMatch(given, /s{20}/, 'a given secret is not shown')
    assert.match(given, /^Next:\n {2}1\. Open Settings .*\n {2}2\. Paste the URL as Payload URL/m)
    assert.match(given, /^ {2}sluice listen --source pasted --app shop$/m)
    assert.match(given, /^ {2}sluice source samples pasted --app shop$/m)
    assert.doesNotMatch(given, /\*\*|`/, 'no Markdown')
    assert.equal(await statusOf(push(pasted, '{}', 's'.repeat(20))), 202)

    const made = /^secret +([0-9a-f]{64})$/m.exec(await sluice('source create github --app shop --uid made'))
    const shown = await sluice('source show made')
    assert.ok(made !== null && !shown.includes(made[1] ?? ''), 'a secret that Sluice made is shown once')
    assert.equal(await statusOf(push(/^url +(\S+)$/m.exec(shown)?.[1] ?? '', '{}', made[1])), 202)
  })

  test('list and show tell what arrived; samples tell why a request was refused', async () => {
    const { sluice, json } = place
    const { url } = await create('seen')
    assert.match(await sluice('source show seen'), /^state +nothing arrived\narrivals +0 accepted, 0 refused$/m)
    assert.match(await sluice('source samples seen'), /^No refused requests\.$/m)
    assert.equal(await statusOf(push(url, '{}')), 202)
    await eventually('it counts', async () => /^state +ok, just now$/m.test(await sluice('source show seen')))
    const hostile = '{}\n\n2026-01-01 00:00:00Z  forged  POST from 192.0.2.1'
    assert.equal(await statusOf(push(`${url}?a=1`, hostile, 'another secret')), 401)
    const samples = await eventually('a sample', async () => {
      const text = await sluice('source samples seen')
      return text.includes('wrong_signature') && text
    })
    assert.match(samples, /^20\S+ \S+Z {2}wrong_signature {2}POST from 127\.0\.0\.1\n {2}No secret of the source /)
    assert.match(samples, /^ {2}parameters: a\n[\s\S]*^ {2}x-hub-signature-256: \*\*\*$/m)
    assert.match(samples, /^ {2}body, 53 bytes: \{\} 2026-01-01 00:00:00Z {2}forged/m, 'a body stays on its line')
    const [sample] = await json<Record<string, unknown>[]>('source samples seen')
    assert.deepEqual([sample?.code, sample?.bytes], ['wrong_signature', hostile.length])
    const everywhere = await sluice('source list')
    assert.match(everywhere, /^SOURCE +PROVIDER +NAME +APP +ACCEPTED +REFUSED +STATE$/m)
    assert.match(everywhere, /^seen +github +GitHub +shop +1 +1 {2}refusing: wrong_signature, just now$/m)
    assert.match(await sluice('source list --app shop'), /^seen +github +GitHub +1 +1 {2}refusing/m)
  })

  test('update changes what is given and keeps the rest', async () => {
    const { sluice, json } = place
    const { url } = await create('changed', ' --replay-window 1h --metadata team=web')
    const shown = await sluice('source update changed --display-name Hub --event-type git.{header:x-github-event}')
    assert.match(shown, /^name +Hub$/m)
    assert.match(shown, /^event type +git\.\{header:x-github-event\}\nreplay window +1 h\nmetadata +\{"team":"web"\}$/m)
    assert.doesNotMatch(shown, /^event id/m)
    assert.match(await sluice('source update changed --disabled on'), /^state +disabled$/m)
    await eventually('it is closed', async () => (await statusOf(push(url, '{}'))) === 404)
    assert.match(await sluice('source update changed --disabled off'), /^state +nothing arrived$/m)
    await eventually('it is open', async () => (await statusOf(push(url, '{}'))) === 202)
    const [message] = await json<Record<string, unknown>[]>('messages shop --limit 1')
    assert.equal(message?.eventType, 'git.push')
  })

  test('update --unset goes back to the defaults of the provider', async () => {
    const { sluice, json } = place
    const fresh = await json<Shown>('source create github --app shop --uid fresh')
    const { id } = await create('unset', ' --replay-window 1h --event-type git --display-name Hub --metadata team=web')
    const some = await json<Shown>('source update unset --unset event-type --unset metadata --unset display-name')
    assert.deepEqual(
      [some.name, some.metadata, some.settings.eventType, some.settings.replayWindowSeconds],
      ['GitHub', {}, fresh.settings.eventType, 3600],
    )
    const rest = await json<Shown>('source update unset --unset replayWindowSeconds --unset uid --event-id {/id}')
    assert.deepEqual(
      [rest.uid, rest.settings.replayWindowSeconds, rest.settings.eventId],
      [null, fresh.settings.replayWindowSeconds, ['{/id}']],
    )
    assert.match(
      await sluice(`source update ${id} --unset event-typ`, 2),
      /"event-typ" cannot be unset\. Did you mean event-type\?/,
    )
    // A setting of another provider, and one that its provider needs.
    assert.match(await sluice(`source update ${id} --unset verify-token`, 2), /"verify-token" cannot be unset/)
    await sluice('source create meta --app shop --uid needs --verify-token my-verify-token --secret an-app-secret')
    assert.match(await sluice('source update needs --unset verify-token', 2), /"verify-token" cannot be unset/)
  })

  test('rotate gives a new URL or a new secret, and says until when the old one counts', async () => {
    const { sluice } = place
    const { url } = await create('turned')
    const moved = await sluice('source rotate turned')
    const next = /^New URL: (\S+)\nThe old URL works until 20.* \(in 2 d\)\.$/m.exec(moved)?.[1] ?? ''
    assert.deepEqual([await statusOf(push(url, '{}')), await statusOf(push(next, '{}'))], [202, 202])
    assert.match(await sluice('source show turned'), /^url .* \(1 older one still works\)$/m)
    const last = /^New URL: (\S+)\nThe old URL no longer works\.$/m.exec(
      await sluice('source rotate turned --grace 0s'),
    )
    await eventually('the old URLs end', async () => (await statusOf(push(next, '{}'))) === 404)
    assert.match(await sluice('source rotate turned --secret other-one'), /^The secret is set\.\nThe old secret counts/)
    const late = await sluice('source create twilio --app shop --uid late')
    assert.match(late, /^secret +not set yet: requests get 503 until it is\nstate +no secret yet$/m)
    assert.match(late, /^As soon as you have the secret, set it:\n {2}sluice source rotate late --app shop --secret/m)
    assert.equal(await sluice('source rotate late --secret first-one'), 'The secret is set.\n', 'no older one counts')
    assert.match(await sluice('source create token --app shop'), /and --token-name is X-Gitlab-Token\.$/m)
    assert.match(await sluice('source show turned'), /^secret +set \(1 older one still counts\)$/m)
    const made = /^New secret: ([0-9a-f]{64})\nThe old secret no longer counts\.$/m.exec(
      await sluice('source rotate turned --new-secret --grace 0s'),
    )
    const latest = last?.[1] ?? ''
    await eventually('the new secret counts', async () => (await statusOf(push(latest, '{}', made?.[1]))) === 202)
    assert.equal(await statusOf(push(latest, '{}')), 401)
    assert.match(await sluice('source rotate turned --secret a --new-secret', 2), /^Give --secret or --new-secret, not/)
  })

  test('delete asks first and keeps the messages; a source that does not exist is named', async () => {
    const { sluice } = place
    const { url } = await create('gone')
    const asked = await place.try('source delete gone', 'n')
    assert.match(asked.err, /Delete source gone \(github, GitHub\)\? Its URL stops working; its messages are kept\./)
    assert.equal(await statusOf(push(url, '{}')), 202)
    assert.match(await sluice('source delete gone'), /^Deleted source gone\. Its messages are kept\.$/m)
    await eventually('it is closed', async () => (await statusOf(push(url, '{}'))) === 404)
    assert.equal(await sluice('source show gone', 4), 'There is no source "gone". See: sluice source list\n')
    await place.sluice('app create Other --uid other')
    for (const app of ['shop', 'other']) await sluice(`source create github --app ${app} --uid twin`)
    assert.match(await sluice('source show twin', 2), /Several applications have a source twin; add --app\./)
    assert.match(await sluice('source show twin --app other'), /^application +other$/m)
  })

  test('a wrong setting is named by its flag, with the remedy', async () => {
    const { sluice } = place
    const refused = (args: string) => sluice(`source create ${args} --app shop`, 2)
    for (const [args, problem] of [
      ['hmac', '--header: is required (header of the signature)'],
      [
        'hmac --header X-Sig --signed {nope}',
        '--signed: must have {body}, and braces only around it and {timestamp}, {id}, {url} and {method}',
      ],
      [
        'hmac --header X-Sig --signed {timestamp}.{body}',
        '--timestamp-header: belongs to {timestamp} in signed: give both or none',
      ],
      ['none', '--accept-unsigned: is required (everybody who knows the URL can send events)'],
      ['jwt', '--jwks-url: give one of --jwks-url, --keys and a secret'],
      ['github --username me', '--username: is no setting of github (basic: user name, without a colon)'],
    ] as const) {
      assert.equal(await refused(args), `Invalid request:\n  - ${problem}\n`)
    }
    assert.match(await refused('hmac --header X-Sig --hash md4'), /'md4' is invalid\. It must be one of sha256, sha1/)
    assert.match(await refused('githup'), /^There is no provider "githup"\. Did you mean github\?$/m)
    assert.match(await refused('nonsense'), /^There is no provider "nonsense"\. Providers: github, stripe, /m)
    assert.match(await sluice('source create github', 2), /^Name the application: --app APP\.$/m)
    assert.match(
      await sluice('source create github --app nobody', 4),
      /^There is no application "nobody"\. Create it: sluice app create NAME --uid nobody$/m,
    )
    const { id } = await place.json<{ id: string }>('app create Unnamed')
    assert.match(
      await sluice('source create github --app Unnamed', 4),
      new RegExp(`^There is no application "Unnamed"\\. Its name is no uid; did you mean ${id}\\?$`, 'm'),
    )
    await sluice('source create none --accept-unsigned --app shop')
    await sluice(`source create twilio --app shop --uid calls --secret token`)
    assert.match(
      await sluice('source rotate calls --new-secret', 2),
      /--secret: is required: Twilio calls it "Auth token"/,
    )
  })

  test('the help of a flag names the providers that it is for, without Markdown', async () => {
    const help = (await place.sluice('source create --help')).replace(/\s+/g, ' ')
    assert.match(help, /--header <NAME> hmac: header of the signature; jwt: header of the token/)
    assert.match(help, /--replay-window <DURATION> how long/, 'all providers have it')
    assert.doesNotMatch(help, /\*\*|`/)
    const providers = await place.sluice('source providers')
    assert.match(providers, /^github +GitHub +HMAC-SHA256 of the body in X-Hub-Signature-256\./m)
    assert.doesNotMatch(providers, /\*\*|`/)
  })

  test('listen --source shows events of that source alone', async () => {
    const { begin, env, sluice, json } = place
    const [{ url }, other] = [await create('heard'), await create('unheard')]
    const listener = begin('listen --source heard --port 0', env)
    await listener.says(/Endpoint {2}listen-\d+ of shop on http/)
    await listener.says(/Waiting/)
    await json('send shop video.trending {}')
    assert.equal(await statusOf(push(other.url, '{"from":"another source"}')), 202)
    assert.equal(await statusOf(push(url, '{}', 'another secret')), 401)
    const answer = await push(url, '{"ref":"main","size":1.0}')
    const { id } = (await answer.json()) as { id: string }
    await listener.says(
      new RegExp(`✓ verified {2}${id} {2}push\\n {10}\\{\\n {12}"ref": "main",\\n {12}"size": 1\\.0\\n`),
    )
    listener.stop('SIGINT')
    assert.equal(await listener.ended, 0)
    assert.match(listener.out, /\n1 request, 1 verified\.\n$/)
    assert.match(await sluice('endpoint list shop'), /^No endpoints\./)
    assert.match(
      await sluice('listen --source nobody --port 0', 4),
      /^There is no source "nobody"\. See: sluice source list$/m,
    )
  })
})
