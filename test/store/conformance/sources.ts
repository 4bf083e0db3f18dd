import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AppError } from '../../../src/domain/app-error.ts'
import type { NewSource, Source } from '../../../src/features/sources/noun.ts'
import { type ArrivalCount, makeSourceToken, type NewSample, sourceKeyOf } from '../../../src/features/sources/rules.ts'
import { begin, type Open, type World } from './harness.ts'

export const plainSource: NewSource = {
  uid: null,
  name: 'Repository',
  provider: 'github',
  settings: { eventType: ['{header:x-github-event}'] },
  secrets: [{ secret: 'a secret of GitHub', expiresAt: null }],
  disabled: false,
  metadata: { team: 'x' },
}

export const tokenOf = (key: number) => makeSourceToken(key, (length) => 'r'.repeat(length))

const hour = 3_600_000

function sampleOf(source: Source, change: Partial<NewSample> = {}): NewSample {
  return {
    source: source.key,
    code: 'wrong_signature',
    reason: 'The signature is wrong.',
    method: 'POST',
    query: '',
    address: '192.0.2.1',
    headers: { 'x-github-event': 'push' },
    body: new Uint8Array([0, 255, 10]),
    bytes: 4711,
    unsampled: 0,
    ...change,
  }
}

function countOf({ key: source }: Source, change: Partial<ArrivalCount>): ArrivalCount {
  return { source, accepted: 0, refused: 0, refusedInRow: 0, refusedCode: null, ...change }
}

const isCode = (code: string) => (error: AppError) => error.code === code

export function sources(open: Open): void {
  test('a source is kept as it was made, and found by its id or uid within its application', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, other] = [await world.application(), await world.application()]
    const made = await store.createSource(app.key, { ...plainSource, uid: 'repo' }, tokenOf)
    assert.match(made.id, /^src_/)
    assert.deepEqual(
      [made.secrets, made.tokens, made.settings, made.metadata, made.disabled, made.ownsApp, made.ingestType],
      [
        plainSource.secrets,
        [{ secret: tokenOf(made.key), expiresAt: null }],
        plainSource.settings,
        { team: 'x' },
        false,
        false,
        null,
      ],
    )
    assert.deepEqual(await store.findSource(app.key, made.id), made)
    assert.deepEqual(await store.findSource(app.key, 'repo'), made)
    assert.equal(await store.findSource(other.key, made.id), undefined)
    assert.equal(await store.findSource(other.key, 'repo'), undefined)
    await assert.rejects(store.createSource(app.key, { ...plainSource, uid: 'repo' }, tokenOf), isCode('conflict'))
    const second = await store.createSource(other.key, { ...plainSource, uid: 'repo' }, tokenOf)
    assert.deepEqual((await store.sourcesNamed('repo')).map(({ id }) => id).sort(), [made.id, second.id].sort())
    assert.deepEqual(await store.sourcesNamed('nothing'), [])
    await assert.rejects(store.createSource(4711, plainSource, tokenOf), isCode('not_found'))
  })

  test('a source is found by the key in its id and in its token, with its application', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const made = await store.createSource(app.key, plainSource, tokenOf)
    const [token] = made.tokens
    for (const name of [made.id, token?.secret ?? '']) {
      assert.deepEqual(await store.sourceAt(sourceKeyOf(name) as number), { ...made, appId: app.id })
    }
    assert.equal(await store.sourceAt(made.key + 1), undefined)
  })

  test('an application has as many sources as it may', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, other] = [await world.application(), await world.application()]
    const made = await store.createSource(app.key, plainSource, tokenOf, 2)
    const racing = await Promise.allSettled([1, 2, 3].map(() => store.createSource(app.key, plainSource, tokenOf, 2)))
    assert.equal(racing.filter(({ status }) => status === 'fulfilled').length, 1)
    await assert.rejects(store.createSource(app.key, plainSource, tokenOf, 2), isCode('quota_exceeded'))
    await store.createSource(other.key, plainSource, tokenOf, 2)
    assert.equal(await store.deleteSource(app.key, made.key), true)
    await store.createSource(app.key, plainSource, tokenOf, 2)
  })

  test('sources are listed by key, within their application or all', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, other] = [await world.application(), await world.application()]
    const keys: number[] = []
    for (let i = 0; i < 3; i++) keys.push((await store.createSource(app.key, plainSource, tokenOf)).key)
    await store.createSource(other.key, plainSource, tokenOf)
    const up = await store.listSources(app.key, { limit: 2, order: 'ascending', after: null })
    assert.deepEqual([up.items.map(({ key }) => key), up.done], [keys.slice(0, 2), false])
    const down = await store.listSources(app.key, { limit: 5, order: 'descending', after: keys[2] as number })
    assert.deepEqual([down.items.map(({ key }) => key), down.done], [keys.slice(0, 2).reverse(), true])
    const all = await store.listSources(null, { limit: 3, order: 'descending', after: null })
    assert.deepEqual([all.items.map((item) => item.app), all.done], [[other.key, app.key, app.key], false])
  })

  test('a change sets the given fields alone, from the source as it is stored', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const made = await store.createSource(app.key, plainSource, tokenOf)
    const rotated = await store.updateSource(app.key, made.key, ({ secrets }, now) => ({
      secrets: [
        { secret: 'next', expiresAt: null },
        ...secrets.map(({ secret }) => ({ secret, expiresAt: now + hour })),
      ],
    }))
    assert.deepEqual(
      rotated?.secrets.map(({ secret }) => secret),
      ['next', 'a secret of GitHub'],
    )
    assert.deepEqual([rotated?.tokens, rotated?.settings], [made.tokens, made.settings])
    const disabled = await store.updateSource(app.key, made.key, { disabled: true, name: 'Other' })
    assert.deepEqual([disabled?.disabled, disabled?.name, disabled?.secrets], [true, 'Other', rotated?.secrets])
    assert.deepEqual(await store.findSource(app.key, made.id), disabled)
    assert.deepEqual(await store.updateSource(app.key, made.key, { name: 'Other' }), disabled)
    await store.createSource(app.key, { ...plainSource, uid: 'taken' }, tokenOf)
    await assert.rejects(store.updateSource(app.key, made.key, { uid: 'taken' }), isCode('conflict'))
    const other = await world.application()
    assert.equal(await store.updateSource(other.key, made.key, { name: 'x' }), undefined)
    assert.equal(await store.deleteSource(other.key, made.key), false)
  })

  test('arrivals are counted, and refusals in a row end with one that is accepted', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [first, second] = [await aSource(world, app.key), await aSource(world, app.key)]
    const wrong = { refused: 3, refusedInRow: 3, refusedCode: 'wrong_signature' }
    await store.noteArrivals([countOf(first, wrong), countOf(second, { accepted: 2 })], [], 3)
    await store.noteArrivals([countOf(first, { ...wrong, refusedCode: 'stale' })], [], 3)
    const sums = await store.arrivalSums([first.key, second.key, 4711])
    assert.equal(sums.size, 2)
    const refused = sums.get(first.key)
    assert.deepEqual(
      [refused?.accepted, refused?.acceptedAt, refused?.refused, refused?.refusedInRow, refused?.refusedCode],
      [0, null, 6, 6, 'stale'],
    )
    assert.ok((refused?.refusedAt ?? 0) > 0)
    const accepted = sums.get(second.key)
    assert.deepEqual([accepted?.accepted, accepted?.refused, accepted?.refusedAt], [2, 0, null])
    assert.deepEqual(
      (await store.refusingSources(hour, 6, 10)).map(({ id, appId, provider, refusedInRow }) => [
        id,
        appId,
        provider,
        refusedInRow,
      ]),
      [[first.id, app.id, 'github', 6]],
    )
    assert.deepEqual(await store.refusingSources(hour, 7, 10), [])
    await store.updateSource(app.key, first.key, { disabled: true })
    assert.deepEqual(await store.refusingSources(hour, 6, 10), [])
    await store.updateSource(app.key, first.key, { disabled: false })
    await store.noteArrivals(
      [countOf(first, { accepted: 1, refused: 1, refusedInRow: 1, refusedCode: 'stale' })],
      [],
      3,
    )
    assert.equal((await store.arrivalSums([first.key])).get(first.key)?.refusedInRow, 1)
    assert.deepEqual(await store.refusingSources(hour, 1, 10), [], 'one was accepted a moment ago')
  })

  test('the newest samples of a source stay, byte for byte', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [first, second] = [await aSource(world, app.key), await aSource(world, app.key)]
    await store.noteArrivals([countOf(second, { refused: 1 })], [sampleOf(second)], 3)
    for (let i = 0; i < 5; i++) {
      await store.noteArrivals([countOf(first, { refused: 1 })], [sampleOf(first, { reason: `reason ${i}` })], 3)
      await world.pass(2)
    }
    const samples = await store.arrivalSamples(first.key, 10)
    assert.deepEqual(
      samples.map(({ reason }) => reason),
      ['reason 4', 'reason 3', 'reason 2'],
    )
    const [{ at, body, ...rest } = assert.fail()] = await store.arrivalSamples(second.key, 10)
    const { source, body: sent, ...expected } = sampleOf(second)
    assert.deepEqual([rest, [...body]], [expected, [...sent]])
    assert.ok(at > 0)
    await store.noteArrivals([], [sampleOf(second, { bytes: null })], 0)
    assert.equal((await store.arrivalSamples(second.key, 10)).length, 1, 'none are kept with 0')
    await store.noteArrivals([], [sampleOf(first, { reason: 'fewer' })], 2)
    const fewer = (await store.arrivalSamples(first.key, 10)).map(({ reason }) => reason)
    assert.deepEqual([fewer.length, fewer[0]], [2, 'fewer'])
    await world.pass(50)
    assert.equal(await store.sweepSamples(10 * hour, 10), 0)
    assert.equal(await store.sweepSamples(10, 2), 2)
    assert.equal(await store.sweepSamples(10, 10), 1)
    assert.deepEqual(await store.arrivalSamples(first.key, 10), [])
  })

  test('nothing is noted for a source that is gone, and a deleted application leaves nothing behind', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [first, second] = [await aSource(world, app.key), await aSource(world, app.key)]
    const note = () =>
      store.noteArrivals(
        [first, second].map((source) => countOf(source, { refused: 1, refusedInRow: 1, refusedCode: 'stale' })),
        [first, second].map((source) => sampleOf(source)),
        3,
      )
    await note()
    assert.equal(await store.deleteSource(app.key, first.key), true)
    assert.equal(await store.deleteSource(app.key, first.key), false)
    await note()
    assert.deepEqual([...(await store.arrivalSums([first.key, second.key])).keys()], [second.key])
    assert.deepEqual(await store.arrivalSamples(first.key, 10), [])
    assert.ok((await store.arrivalSamples(second.key, 10)).length > 0)
    assert.equal(await store.deleteApplication(app.key), true)
    await note()
    assert.equal(await store.sourceAt(second.key), undefined)
    assert.equal((await store.arrivalSums([second.key])).size, 0)
    assert.deepEqual(await store.arrivalSamples(second.key, 10), [])
  })
}

function aSource({ store }: World, app: number): Promise<Source> {
  return store.createSource(app, plainSource, tokenOf)
}
