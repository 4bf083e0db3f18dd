import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { isMade } from '../../src/operations/auth.ts'
import { type Served, served, workplace } from './program.ts'

describe('managing over the API', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
    await place.sluice('app create Acme --uid acme --metadata team=video')
  })

  test('applications are made, listed, shown, changed and deleted', async () => {
    const { sluice, json } = place
    const made = await json('app create Other --uid other --rate 7')
    assert.deepEqual([made.uid, made.name, made.throttleRate], ['other', 'Other', 7])
    assert.equal((await json('app create Other --uid other --if-missing')).id, made.id)
    const lines = (await sluice('app list')).split('\n')
    assert.match(lines[0] ?? '', /^ID +UID +NAME +CREATED$/)
    assert.ok(lines.some((line) => line.startsWith(`${made.id}  other  Other  20`)))
    assert.deepEqual((await json('app get acme')).metadata, { team: 'video' })
    assert.deepEqual(await json('apps show acme'), await json('app get acme'), 'singular or plural, get or show')
    assert.deepEqual(await json('message acme'), await json('messages acme'))
    assert.match(await sluice('app get acme'), /^metadata +\{"team":"video"\}$/m)
    assert.equal((await json(['app', 'update', 'other', '--name', 'New name'])).name, 'New name')
    assert.match(await sluice('app delete other'), /^Deleted application other/)
    assert.match(
      await sluice('app get other', 4),
      /^There is no application "other"\. Create it: sluice app create NAME --uid other\n$/,
    )
    assert.equal((await json<unknown[]>('app list --limit 1')).length, 1)
    assert.match(
      await sluice('app create Nameless'),
      /find it by its id only\. Give it one: sluice app update app_\w+ --uid UID/,
    )
    assert.doesNotMatch(await sluice('app create Named --uid named'), /It has no uid/)
  })

  test('credentials are set from flags and files, shown without secrets, and unset', async () => {
    const { sluice, json, directory } = place
    const fixtures = join(import.meta.dirname, '../sender/fixtures')
    await json('endpoint create acme https://receiver.example/ --uid secured --auth bearer:canary-token')
    assert.match(await sluice('endpoint get acme secured'), /^auth +bearer$/m)
    const basic = await sluice('endpoint update acme secured --auth basic:me:canary:password')
    assert.match(basic, /^auth +basic, user me$/m)
    const oauth = { kind: 'oauth2', tokenUrl: 'https://idp.example/token', clientId: 'c', clientSecret: 'canary' }
    writeFileSync(join(directory, 'oauth.json'), JSON.stringify(oauth))
    const shown = await sluice('endpoint update acme secured --auth @oauth.json')
    assert.match(shown, /^auth +oauth2, c at https:\/\/idp\.example\/token \(client_secret_basic\)$/m)
    const first = await sluice(`endpoint update acme secured --client-certificate ${fixtures}/client-first.pem`)
    assert.match(first, /^client certificate +CN=sluice first, [0-9A-F:]{23}…, valid until 21\d\d-/m)
    const expired = `endpoint update acme secured --client-certificate ${fixtures}/expired.pem --certificate-overlap 1h`
    assert.match(
      await sluice(expired),
      /the one before is used until .*\n[\s\S]*^warning +The client certificate expired at 20.* ago\): receivers will refuse it\.$/m,
    )
    for (const text of [basic, shown, first]) assert.doesNotMatch(text, /canary|PRIVATE/)
    assert.match(
      await sluice('why acme --endpoint secured'),
      /^idle: .*\nwarning +The client certificate expired at 20.* ago\): receivers will refuse it\.$/m,
    )
    const keyless = `--client-certificate ${fixtures}/authority.pem`
    assert.match(
      await sluice(`endpoint update acme secured ${keyless}`, 2),
      /authority\.pem has no private key\. Give its file, too: --client-key FILE\.$/m,
    )
    assert.match(
      await sluice('endpoint update acme secured --url http://127.0.0.1:9/', 2),
      /^Nothing to change\. --url is the URL of the server\. The URL of an endpoint is --target\.$/m,
    )
    const wrongKey = `--client-certificate ${fixtures}/client-first.pem --client-key ${fixtures}/client-second.pem`
    assert.match(await sluice(`endpoint update acme secured ${wrongKey}`, 2), /does not belong to the certificate/)
    assert.match(await sluice('endpoint update acme secured --client-key x', 2), /needs --client-certificate beside it/)
    assert.match(
      await sluice('endpoint update acme secured --auth nonsense', 2),
      /must be bearer:TOKEN, basic:USER:PASS/,
    )
    assert.match(await sluice('endpoint update acme secured --auth @missing.json', 2), /Cannot read missing\.json/)
    const unset = await json('endpoint update acme secured --unset auth --unset client-certificate')
    assert.deepEqual([unset.auth, unset.clientCertificate], [null, null])
  })

  test('regions are made, listed and deleted; endpoints filter, shape and are signed by a profile', async () => {
    const { sluice, json } = place
    const eu = await json('region create acme eu')
    assert.match(String(eu.secret), /^rgn_/)
    assert.match(await sluice('region list acme'), /^NAME +CREATED\neu +20/)
    const shape = '{"drop":["/email"],"pseudonymize":["/user"]}'
    const made = await json([
      ...'endpoint create acme http://127.0.0.1:9/ --uid shaped --region eu --signature github --shape'.split(' '),
      ...[shape, '--filter', 'payload.views > 1000'],
    ])
    assert.deepEqual([made.region, made.signature, made.filter], ['eu', 'github', 'payload.views > 1000'])
    const shown = await sluice('endpoint get acme shaped')
    assert.match(
      shown,
      /^filter +payload\.views > 1000\nshape +\{.*"drop":\["\/email"\].*\nregion +eu\nsignature +github$/m,
    )
    for (const retry of ['5s,1m,1h', 'exponential:5s..1h,x12', '250ms,jitter=full,max-age=1d']) {
      const text = await sluice(['endpoint', 'update', 'acme', 'shaped', '--retry', retry])
      assert.equal(/^retry +(.*)$/m.exec(text)?.[1], retry, 'as the flag takes it')
    }
    assert.match(await sluice(['endpoint', 'update', 'acme', 'shaped', '--filter', 'views >'], 2), /filter: .*column 8/)
    assert.match(await sluice('region delete acme eu', 6), /gets pseudonyms of the region eu/)
    await json('endpoint update acme shaped --unset shape --unset region --unset filter')
    assert.match(await sluice('region delete acme eu'), /^Deleted the secret of region eu/)
  })

  test('endpoints have bounds, messages expire, and what was dropped says why', async () => {
    const { sluice, json } = place
    const path = 'acme http://127.0.0.1:9/ --uid bounded --event-type bounded.made --disable'
    const made = await json(`endpoint create ${path} --max-waiting 5 --overflow drop_oldest --max-age 1h`)
    assert.deepEqual([made.maxWaiting, made.overflow, made.maxAgeSeconds], [5, 'drop_oldest', 3600])
    assert.equal((await json('endpoint update acme bounded --while-disabled drop')).whileDisabled, 'drop')
    const shown = await sluice('endpoint get acme bounded')
    assert.match(shown, /^max waiting +5\noverflow +drop_oldest\nmax age +1 h\nwhile disabled +drop$/m)
    const sent = await json('send acme bounded.made {} --expires-at 10m')
    const ttlMs = Date.parse(String(sent.expiresAt)) - Date.now()
    assert.ok(ttlMs > 500_000 && ttlMs <= 600_000, String(sent.expiresAt))
    assert.match(await sluice('dead list acme --reason disabled'), new RegExp(`${sent.id} +bounded +disabled +untried`))
    assert.match(await sluice(`dead show acme ${sent.id}`), /^reason +disabled$/m)
    assert.match(await sluice('endpoint update acme bounded --overflow drop', 2), /overflow/)
    const straight = await json('send acme other.type {} --endpoint bounded')
    assert.match(await sluice('dead list acme --reason disabled'), new RegExp(`${straight.id} +bounded`))
    assert.match(await sluice('send acme other.type {} --endpoint nobody', 2), /none called nobody/)
    await sluice('endpoint delete acme bounded')
  })

  test('applications have defaults and header templates for their endpoints, which are shown and unset', async () => {
    const { sluice, json } = place
    await json('app create Defaults --uid defaults')
    const set = 'app update defaults --default-rate 30 --default-period 1m --default-burst 4 --header-template'
    const changed = await json([...set.split(' '), 'X-Event={eventType}'])
    assert.deepEqual([changed.defaultRate, changed.defaultPeriodSeconds, changed.defaultBurst], [30, 60, 4])
    assert.deepEqual(changed.headerTemplates, { 'X-Event': '{eventType}' })
    assert.match(await sluice('app get defaults'), /^default rate +30\ndefault period +1 min\ndefault burst +4$/m)
    const made = await json([
      ...'endpoint create defaults http://127.0.0.1:9/ --uid one --method GET --connect-timeout 2s'.split(' '),
      ...['--header-template', 'X-Try={attempt}'],
    ])
    assert.deepEqual([made.method, made.connectTimeoutMs, made.throttleRate], ['GET', 2000, null])
    assert.deepEqual(made.headerTemplates, { 'X-Try': '{attempt}' })
    const lane = await sluice('lane defaults one')
    assert.match(lane, /^rate +30 in 60 s \(default of the application\)\nburst +4 \(default of the application\)$/m)
    const unset = await json('app update defaults --unset default-rate --unset header-template')
    assert.deepEqual([unset.defaultRate, unset.defaultBurst, unset.headerTemplates], [null, 4, null])
    assert.match(await sluice('app update defaults --unset default-rat', 2), /Did you mean default-rate\?/)
    await sluice('app delete defaults')
  })

  test('endpoints coalesce, and what gave way is shown with what took its place', async () => {
    const { sluice, json } = place
    const path = 'acme http://127.0.0.1:9/ --uid calm --event-type calm.changed'
    const made = await json(`endpoint create ${path} --coalesce 1h --coalesce-key /id`)
    assert.deepEqual(made.coalesce, { windowMs: 3_600_000, key: '/id' })
    assert.match(await sluice('endpoint get acme calm'), /^coalesce +the newest of 1 h by event type and \/id$/m)
    const first = await json(['send', 'acme', 'calm.changed', '{"id":1}'])
    const second = await json(['send', 'acme', 'calm.changed', '{"id":1}'])
    assert.match(await sluice(`messages acme ${first.id}`), new RegExp(`coalesced into ${second.id}`))
    assert.match(await sluice(`why acme ${first.id} calm`), /^coalesced: A newer message \(msg_/)
    assert.match(await sluice(`why acme ${second.id} calm`), /^coalescing: It waits until/)
    assert.match(await sluice('endpoint update acme calm --coalesce 1s', 2), /coalesce/)
    assert.equal((await json('endpoint update acme calm --unset coalesce')).coalesce, null)
    assert.match(await sluice('endpoint update acme calm --coalesce-key /id', 2), /needs --coalesce beside it/)
  })

  test('circuits are set, opened, shown, closed and reset', async () => {
    const { sluice, json } = place
    const made = await json([
      ...'endpoint create acme http://127.0.0.1:9/ --uid frail --adaptive off --disable-after 2d --circuit'.split(' '),
      '{"failures":3}',
    ])
    assert.deepEqual([made.adaptive, made.disableAfterMs], [false, 172_800_000])
    assert.equal((made.circuit as Record<string, unknown>).failures, 3)
    assert.match(await sluice('endpoint get acme frail'), /^adaptive +off\ndisable after +2 d$/m)
    assert.match(
      await sluice('circuit open acme frail'),
      /^The circuit of frail is open\. .*`sluice circuit close acme frail`\.$/m,
    )
    assert.match(await sluice('lane acme frail'), /^state +circuit open$/m)
    assert.match(await sluice('lane acme frail'), /^circuit +opened by an operator$/m)
    assert.match(await sluice('circuit close acme frail'), /^The circuit of frail is closed/)
    assert.equal((await json('circuit reset acme frail')).uid, 'frail')
    assert.doesNotMatch(await sluice('lane acme frail'), /^circuit/m)
    assert.equal((await json('endpoint update acme frail --circuit off')).circuit, 'off')
    assert.equal((await json('endpoint update acme frail --unset circuit')).circuit, null)
    await sluice('circuit open acme nobody', 4)
  })

  test('schedules are made, listed, shown, paused, run by hand and deleted', async () => {
    const { sluice, json } = place
    const made = await json(
      [
        'schedule',
        'create',
        'acme',
        '30 7 * * *',
        'report.due',
        '{"total": 1.0}',
        '--uid',
        'daily',
        '--timezone',
        'Europe/Berlin',
      ].concat(['--missed', 'all', '--missed-limit', '3', '--channel', 'c', '--tag', 't', '--metadata', 'team=x']),
    )
    assert.deepEqual([made.uid, made.missed, made.missedLimit, made.channels], ['daily', 'all', 3, ['c']])
    assert.match(await sluice('schedule list acme'), /^sch_\S+ +daily +30 7 \* \* \* +Europe\/Berlin +report\.due +20/m)
    assert.match(
      await sluice('schedule show acme daily --next 2'),
      /^next runs +20\S+ 0[56]:30:00Z, 20\S+ 0[56]:30:00Z$/m,
    )
    const retimed = 'schedule update acme daily --timezone UTC --header x-shop=berlin --tag t --cron'.split(' ')
    assert.match(
      await sluice([...retimed, '15 30 8 * * *']),
      /^cron +15 30 8 \* \* \* \(UTC\)$[\s\S]*^headers +x-shop: berlin$[\s\S]*^next runs.* 08:30:15Z,/m,
    )
    const raw = 'schedule update acme daily <ping/> --raw --content-type application/xml'
    const { contentType, payload, tags } = await json<Record<string, unknown>>(raw)
    assert.deepEqual([contentType, tags], ['application/xml', ['t']])
    assert.deepEqual(payload, { contentType, base64: Buffer.from('<ping/>').toString('base64') })
    assert.match(await sluice('schedule update acme daily', 2), /Nothing to change/)
    assert.match(await sluice('schedule pause acme daily'), /^Schedule daily is paused\.$/m)
    const { msgId } = await json('schedule run acme daily')
    assert.match(await sluice('schedule show acme daily'), new RegExp(`published by hand +${msgId}`))
    assert.match(await sluice('schedule resume acme daily'), /is resumed; next run: 20/)
    assert.match(await sluice(['schedule', 'create', 'acme', '0 0 30 2 *', 'x', '{}'], 2), /never comes/)
    assert.match(await sluice('schedule delete acme daily'), /^Deleted schedule daily/)
    assert.match(await sluice('schedule list acme'), /^No schedules\./)
  })

  test('endpoints are made with limits, listed, changed, paused, and their secrets rotated', async () => {
    const { sluice, json } = place
    const made = await json(
      'endpoint create acme http://127.0.0.1:9/ --uid main --event-type video.* --rate 10 --period 2s --burst 20 --concurrency 4 --timeout 3s --header x-team=video',
    )
    assert.deepEqual(
      [made.throttleRate, made.throttlePeriodSeconds, made.burst, made.concurrency, made.timeoutMs, made.eventTypes],
      [10, 2, 20, 4, 3000, ['video.*']],
    )
    assert.match(String(made.secret), /^whsec_/)
    assert.match(
      await sluice('endpoint list acme'),
      /^main +http:\/\/127\.0\.0\.1:9\/ +video\.\* +10\/2s, 4 at once +active$/m,
    )
    const changed = await json('endpoint update acme main --rate 5 --unset burst --target http://127.0.0.1:8/')
    assert.deepEqual(
      [changed.throttleRate, changed.burst, changed.url, changed.concurrency],
      [5, null, 'http://127.0.0.1:8/', 4],
    )
    const free = await json('endpoint update acme main --unset rate --unset timeoutMs --unset event-type')
    assert.deepEqual([free.throttleRate, free.timeoutMs, free.eventTypes], [null, null, null])
    assert.equal(
      await sluice('endpoint update acme main --unset rat', 2),
      '"rat" cannot be unset. Did you mean rate?\n',
    )
    assert.match(await sluice('endpoint update acme main --unset url', 2), /^"url" cannot be unset\./)
    await sluice('endpoint pause acme main')
    assert.match(await sluice('endpoint get acme main'), /^state +paused$/m)
    await sluice('endpoint resume acme main')
    assert.match(await sluice('endpoint list acme'), /active$/m)
    await sluice('circuit open acme main')
    assert.match(await sluice('endpoint list acme'), /circuit open$/m)
    assert.match(await sluice('endpoint get acme main'), /^state +circuit open$/m)
    assert.match(await sluice('lane acme main'), /^state +circuit open$/m)
    await sluice('circuit reset acme main')
    // No receiver listens there: the attempt fails, and the command says how.
    const tested = await place.try('endpoint test acme main')
    assert.equal(tested.ended, 1)
    assert.match(tested.out, /^sent +svix\.ping +msg_\w+\nto +http:\/\/127\.0\.0\.1:8\/\nanswer +– +connect_refused/m)
    const id = /msg_\w+/.exec(tested.out)?.[0]
    assert.match(await sluice(`attempts acme ${id}`), /^AT +ENDPOINT .*\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +main /)
    assert.equal(await sluice('endpoint secret acme main'), `${made.secret}\n`)
    await sluice('endpoint rotate acme main --grace 1h')
    assert.notEqual(await sluice('endpoint secret acme main'), `${made.secret}\n`)
    await sluice('endpoint delete acme main')
    await sluice('endpoint get acme main', 4)
  })

  test('keys are shown once, do what they are for, and end when revoked', async () => {
    const { sluice, json, begin, url } = place
    const made = await json('key create ci --scope publish --scope read --app acme --expires 1h')
    assert.ok(isMade('sk', String(made.token)))
    const asKey = async (args: string) => {
      const program = begin(args, { SLUICE_URL: url, SLUICE_API_KEY: String(made.token) })
      return [await program.ended, program.err] as const
    }
    assert.deepEqual((await asKey('app get acme'))[0], 0)
    assert.equal((await asKey('app create X --uid x'))[0], 5)
    const list = await sluice('key list')
    assert.match(list, new RegExp(`^${made.id} +ci +publish, read +acme +valid`, 'm'))
    assert.ok(!list.includes(String(made.token)))
    await sluice(`key revoke ${made.id}`)
    assert.match(await sluice('key list'), / revoked /)
    const [code, error] = await asKey('app get acme')
    assert.equal(code, 5)
    assert.match(error, /Is --key or SLUICE_API_KEY right\?/)
    await sluice('key revoke key_unknown', 4)
    const { token } = await json('key create boss --scope admin --app acme')
    assert.match(
      await sluice(`dead purge acme --reason gone --key ${token}`, 5),
      /^Started task qtask_\w+\. This key may not read its progress; use --no-wait with such a key\.$/m,
    )
    assert.match(await sluice('key create x', 2), /^Which scope\? Give --scope admin, publish or read/)
  })

  test('an error is one message, with a code for scripts', async () => {
    const { sluice, begin } = place
    assert.equal(await sluice('app get acne', 4), 'There is no application "acne". Did you mean acme?\n')
    assert.match(await sluice('app create Acme --uid acme', 6), /already in use/)
    assert.match(await sluice('endpoint create acme ftp://x/', 2), /^Invalid request:\n {2}- url: /)
    assert.match(await sluice('app lst', 2), /unknown command 'lst'\n\(Did you mean list\?\)/)
    assert.match(await sluice('app list --limt 3', 2), /unknown option '--limt'\n\(Did you mean --limit\?\)/)
    assert.match(await sluice('app list --limit none', 2), /It must be a whole number/)
    assert.match(await sluice('app list --url nowhere', 2), /--url must be a server's address/)
    assert.match(await sluice('app create X --metadata x', 2), /"x" must be NAME=VALUE/)
    const keyless = begin('app list', { SLUICE_URL: place.url })
    assert.equal(await keyless.ended, 5)
    assert.match(keyless.err, /Give one with --key or SLUICE_API_KEY\.\n$/)
  })

  test('with --json errors are JSON, those of the server, of this program and of the command line', async () => {
    const errorOf = async (args: string) => {
      const { ended, err } = await place.try(`${args} --json`)
      const { exitCode, ...rest } = JSON.parse(err)
      assert.equal(exitCode, ended)
      return rest
    }
    assert.deepEqual(await errorOf('app get acne'), {
      error: 'There is no application "acne". Did you mean acme?',
      status: 404,
      code: 'not_found',
    })
    assert.deepEqual(await errorOf('app create X --metadata x'), { error: '"x" must be NAME=VALUE.' })
    assert.match((await errorOf('app list --limt 3')).error, /unknown option '--limt'/)
  })

  test('an update without options changes nothing, says so and leaves no row in the audit log', async () => {
    const rows = async () => (await place.json<unknown[]>('audit list --limit 9999')).length
    await place.sluice('endpoint create acme https://example.com/hook --uid idle')
    const before = await rows()
    for (const args of ['app update acme', 'endpoint update acme idle']) {
      const { ended, out, err } = await place.try(args)
      assert.deepEqual([ended, err], [0, 'Nothing was changed: no option was given.\n'])
      assert.match(out, /^id +\w+/)
    }
    assert.equal(await rows(), before)
    await place.sluice('endpoint update acme idle --rate 3')
    assert.equal(await rows(), before + 1)
  })

  test('a rotation says when the old secret stops', async () => {
    await place.sluice('endpoint create acme https://example.com/hook --uid turning')
    assert.match(
      await place.sluice('endpoint rotate acme turning'),
      /^secret +whsec_\S+\nold secret +also signs until \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\n$/,
    )
    assert.match(await place.sluice('endpoint rotate acme turning --grace 0s'), /^old secret +signs no more$/m)
  })

  test('a secret is rotated by one request', async (t) => {
    const requests: string[] = []
    const server = createServer(({ method, url }, response) => {
      requests.push(`${method} ${url}`)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"key":"whsec_bmV3"}')
    }).listen(0, '127.0.0.1')
    t.after(() => server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const rotating = workplace().begin(`endpoint rotate acme main --key k --url http://127.0.0.1:${port}`)
    assert.equal(await rotating.ended, 0, rotating.err)
    assert.match(rotating.out, /^secret +whsec_bmV3\nold secret +also signs until /)
    assert.deepEqual(requests, ['POST /api/v1/app/acme/endpoint/main/secret/rotate'])
  })

  test('a server that does not exist, and one that is not Sluice, have different errors', async (t) => {
    const { begin } = workplace()
    const other = createServer((_request, response) => response.writeHead(418).end('tea')).listen(0, '127.0.0.1')
    t.after(() => other.close())
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const wrong = begin(`app list --url http://127.0.0.1:${port}`)
    assert.equal(await wrong.ended, 1)
    assert.match(wrong.err, /with 418\. Is it a Sluice server\?/)
    await new Promise((resolve) => other.close(resolve))
    const gone = begin(`app list --url http://127.0.0.1:${port}/api/v1/`)
    assert.equal(await gone.ended, 7)
    assert.match(
      gone.err,
      new RegExp(`^Cannot reach the server at http://127.0.0.1:${port}: connection refused\\. Is it`),
    )
    assert.doesNotMatch(gone.err, /\n +at /)
  })
})

describe('send', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
    await place.sluice('app create Acme --uid acme')
  })
  const payload = '{ "id": 9007199254740993,\n "score": 1.0 }'
  /** The stored payload as the server gives it: bytes. */
  const stored = async (id: unknown) => {
    const answer = await fetch(`${place.url}/api/v1/app/acme/msg/${id}`, {
      headers: { authorization: 'Bearer sk_fixed_0123456789' },
    })
    return answer.text()
  }

  test('takes the payload from the command line, a file or standard input, byte for byte', async () => {
    const { json, directory } = place
    writeFileSync(join(directory, 'event.json'), payload)
    const sent = [
      await json(['send', 'acme', 'video.trending', payload]),
      await json('send acme video.trending @event.json'),
      await json('send acme video.trending -', payload),
      await json('send acme video.trending', payload),
    ]
    for (const { id } of sent) assert.ok((await stored(id)).includes(`"payload":${payload},`))
  })

  test('gives the message its id, channels and type', async () => {
    const { json, sluice } = place
    const args = ['send', 'acme', 'a.b', '{}', '--event-id', 'order-17', '--channel', 'x', '--channel', 'y']
    const sent = await json(args)
    assert.deepEqual([sent.eventType, sent.eventId, sent.channels], ['a.b', 'order-17', ['x', 'y']])
    assert.match(await sluice(args, 6), /order-17/)
    assert.match(
      await sluice('send acme a.b {}'),
      /^Accepted as msg_\w+\nCheck its status: sluice messages acme msg_\w+\n$/,
    )
  })

  test('sends any bytes as they are, delays, and tags', async () => {
    const { json, sluice } = place
    const raw = await json('send acme image.made - --raw --content-type image/png --tag red', 'no JSON')
    assert.equal(raw.eventType, 'image.made')
    assert.deepEqual(raw.tags, ['red'])
    const later = await json('send acme a.later {} --deliver-at 2h --tag red --tag blue')
    const found = await json<{ id: string }[]>('messages acme --tag blue')
    assert.deepEqual(
      found.map(({ id }) => id),
      [later.id],
    )
    const laterRaw = await json('send acme a.raw {} --raw --deliver-at 2h')
    assert.ok(Math.abs(Date.parse(String(laterRaw.deliverAt)) - Date.now() - 7_200_000) < 60_000)
    assert.match(await sluice('send acme a.b {} --deliver-at soon', 2), /"soon" must be an instant/)
  })

  test('refuses what cannot be sent before or at the server', async () => {
    const { sluice } = place
    assert.match(await sluice('send acme a.b @missing.json', 2), /^Cannot read missing\.json: no such file\.\n$/)
    assert.match(await sluice('send acme a.b -', 2, ''), /^The payload is empty/)
    const refusals: [string, string][] = [
      ['{"a": x}', "The payload is not valid JSON: unexpected 'x' at byte 6.\n"],
      ['{"a":', 'The payload ends too early.\n'],
      ['1,"tags":["x"]', "The payload is not valid JSON: unexpected ',' at byte 1.\n"],
    ]
    for (const [payload, refusal] of refusals) {
      assert.equal(await sluice(['send', 'acme', 'a.b', payload], 2), refusal, 'bytes of the payload are counted')
      assert.equal(await sluice(['schedule', 'create', 'acme', '* * * * *', 'a.b', payload], 2), refusal)
    }
    assert.match(
      await sluice(['send', 'acme', 'a.b', '{},"eventType":"c.d"'], 2),
      /^The payload is not valid JSON: unexpected ',' at byte 2/,
    )
    await sluice('send nobody a.b {}', 4)
  })
})
