import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, Program } from './program.ts'

const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }

/** The first events of these kinds that a live stream brings. */
async function liveEvents(url: string, kinds: readonly string[]): Promise<Map<string, { waiting: { total: number } }>> {
  const found = new Map()
  const aborted = new AbortController()
  const { body } = await fetch(url, { headers, signal: aborted.signal })
  assert.ok(body)
  let text = ''
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (const frame of text.split('\n\n').slice(0, -1)) {
      const [, kind = '', data = ''] = /^event: (\w+)\ndata: (.*)$/m.exec(frame) ?? []
      if (kinds.includes(kind)) found.set(kind, JSON.parse(data))
    }
    if (kinds.every((kind) => found.has(kind))) break
  }
  aborted.abort()
  return found
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: every surface says one number and one word, however deep a queue is`, async (t) => {
    const place = await openPlace(t, dialect)
    const server = await Program.start(t, 'serve', place.store, { SLUICE_MAX_WAITING_PER_ENDPOINT: '1000000' })
    const ask = async (path: string, method = 'GET', body?: unknown) => {
      const reply = await fetch(`${server.api}${path}`, { method, headers, body: body ? JSON.stringify(body) : null })
      const answer = await reply.text()
      assert.ok(reply.ok, answer)
      return answer === '' ? undefined : JSON.parse(answer)
    }
    const publish = () => ask('/app/acme/msg', 'POST', { eventType: 'a', payload: {} })
    await ask('/app', 'POST', { name: 'Acme', uid: 'acme' })
    await ask('/app/acme/endpoint', 'POST', { uid: 'main', url: 'https://example.com/' })
    await ask('/app/acme/endpoint/main/pause', 'POST')
    await publish()
    const columns = await place.query('select * from pending')
    const names = Object.keys(columns[0] ?? {})
    const values = names.map((name) => (name === 'message' ? 'pending.message + n' : `pending.${name}`))

    /** The number and the word of each surface, in one tick. */
    async function told(): Promise<Record<string, [waiting: number, condition: string]>> {
      const at = '/app/acme/endpoint/main'
      const origin = new URL(server.api).origin
      const [lane, why, ofApp, ofAll, worst, listed, doctor, stats, metrics, live, ofLane, top] = await Promise.all([
        ask(`${at}/lane`),
        ask(`${at}/why`),
        ask('/app/acme/why'),
        ask('/why'),
        ask('/endpoint?sort=waiting'),
        ask('/endpoint'),
        ask('/doctor'),
        ask(`${at}/stats`),
        fetch(`${origin}/metrics`, { headers }).then((reply) => reply.text()),
        liveEvents(`${server.api}/live`, ['overview']),
        liveEvents(`${server.api}/live?app=acme&endpoint=main`, ['lane']),
        Program.run(t, 'top', place.store, {}, { flags: ['--json', '--url', origin, '--key', apiKey] }),
      ])
      const word = why.condition
      const figure = (line: string) =>
        Number(
          metrics
            .split('\n')
            .find((each) => each.startsWith(line))
            ?.split(' ')[1],
        )
      const event = ofLane.get('lane') as { waiting: { total: number }; condition: string } | undefined
      const seen = JSON.parse(top.printed)
      return {
        lane: [lane.waiting.total, lane.condition],
        why: [why.waiting.total, word],
        'why of the application': [ofApp.waiting.total, ofApp.data[0].condition],
        'worst of the application': [ofApp.data[0].waiting.total, word],
        'why of all': [ofAll.waiting.total, ofAll.data[0].condition],
        'endpoints by waiting': [worst.data[0].waiting.total, worst.data[0].condition],
        endpoints: [listed.data[0].waiting.total, listed.data[0].condition],
        doctor: [doctor.waiting.total, word],
        finding: [doctor.findings[0].evidence.waiting, word],
        statistics: [stats.pending + stats.sending, word],
        metrics: [figure('sluice_deliveries_waiting{class="fresh"}'), word],
        'metrics of endpoints': [figure('sluice_endpoint_deliveries_waiting'), word],
        'live overview': [live.get('overview')?.waiting.total ?? -1, word],
        'live lane': [event?.waiting.total ?? -1, event?.condition ?? ''],
        top: [seen.waiting.total, seen.endpoints[0].condition],
        'sentence of why': [Number(/^([\d,]+)/.exec(why.forecast.sentence)?.[1]?.replaceAll(',', '')), word],
        'sentence of doctor': [Number(/([\d,]+) deliver/.exec(doctor.summary)?.[1]?.replaceAll(',', '')), word],
      }
    }

    let depth = 1
    for (const wanted of [10, 1000, 100_000]) {
      await place.query(`
        insert into pending (${names})
        with recursive series (n) as (select ${depth} union all select n + 1 from series where n < ${wanted - 1})
        select ${values} from series join pending on pending.message = (select min(message) from pending)`)
      depth = wanted
      await eventually('the rows of another program are counted', async () => {
        const { waiting } = await ask('/app/acme/endpoint/main/why')
        return waiting.total === depth && waiting.isExact
      })
      // One more, which no round of counting has seen.
      await publish()
      depth++
      const before = performance.now()
      await eventually('metrics are as old as a second', async () => performance.now() - before > 1100)
      const all = await told()
      for (const [surface, said] of Object.entries(all)) assert.deepEqual(said, [depth, 'stopped'], surface)
    }
  })
}
