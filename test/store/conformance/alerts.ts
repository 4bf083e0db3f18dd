import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AlertChange, AlertState } from '../../../src/features/alerts/rules.ts'
import { begin, type Open } from './harness.ts'

const firing: AlertState = {
  phase: 'firing',
  since: 5,
  clearSince: null,
  firedAt: 5,
  resolvedAt: null,
  announced: true,
  severity: 'warning',
  value: 1204,
  threshold: 1000,
  sentence: '1,204 deliveries "wait" \\ 🎬.',
  command: 'sluice why',
  app: null,
  endpoint: null,
}

function change(more: Partial<AlertChange> = {}): AlertChange {
  return { rule: 'waiting', subject: '', version: 0, state: firing, announce: 'firing', ...more }
}

export function alerts(open: Open): void {
  test('an alert is stored with the notice that announces it', async (t) => {
    const { store } = await begin(t, open)
    assert.deepEqual(await store.changeAlerts([change()]), [change()])
    const { alerts, now } = await store.readAlerts()
    assert.deepEqual(alerts, [{ rule: 'waiting', subject: '', version: 1, state: firing }])
    const [notice, ...others] = await store.listNotices(10)
    assert(notice)
    assert.deepEqual([notice.type, notice.app, notice.message, others], ['alert.firing', -1, null, []])
    assert.deepEqual([notice.data.rule, notice.data.sentence], ['waiting', firing.sentence])
    assert(Math.abs(notice.at - now) < 60_000)
  })

  test('of several processes that change an alert, one does, and one notice is written', async (t) => {
    const { store } = await begin(t, open)
    const answers = await Promise.all(Array.from({ length: 8 }, () => store.changeAlerts([change()])))
    assert.equal(answers.flat().length, 1)
    const resolved: AlertState = { ...firing, phase: 'resolved', resolvedAt: 9, announced: false }
    const ends = Array.from({ length: 8 }, () =>
      store.changeAlerts([change({ version: 1, state: resolved, announce: 'resolved' })]),
    )
    assert.equal((await Promise.all(ends)).flat().length, 1)
    assert.deepEqual(
      (await store.listNotices(10)).map(({ type }) => type),
      ['alert.firing', 'alert.resolved'],
    )
    assert.deepEqual(await store.changeAlerts([change({ version: 1, state: null, announce: null })]), [])
    assert.equal((await store.changeAlerts([change({ version: 2, state: null, announce: null })])).length, 1)
    assert.deepEqual((await store.readAlerts()).alerts, [])
  })

  test('a stale change does not keep the others of its call from being stored', async (t) => {
    const { store } = await begin(t, open)
    await store.changeAlerts([change()])
    const [a, b] = [change({ subject: 'ep_1' }), change({ subject: 'ep_2', announce: null })]
    assert.deepEqual(await store.changeAlerts([change(), a, b]), [a, b])
    assert.equal((await store.listNotices(10)).length, 2)
    assert.deepEqual(
      (await store.readAlerts()).alerts.map(({ subject }) => subject),
      ['', 'ep_1', 'ep_2'],
    )
  })

  test('a silence is listed until it is over or ended', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const asked = { rule: 'waiting', subject: null, startsInMs: 0, reason: 'a move', createdBy: 'key_1' }
    const long = await store.addSilence({ ...asked, lengthMs: 60_000 })
    const later = await store.addSilence({
      ...asked,
      rule: null,
      subject: 'ep_1',
      startsInMs: 30_000,
      lengthMs: 30_000,
    })
    await store.addSilence({ ...asked, lengthMs: 1 })
    await world.pass(5)
    const { silences, now } = await store.readAlerts()
    assert.deepEqual(silences, [long, later])
    assert.deepEqual([long.rule, long.subject, long.reason, long.createdBy], ['waiting', null, 'a move', 'key_1'])
    assert.equal(long.until - long.from, 60_000)
    assert(later.from > now && later.from - later.createdAt === 30_000)
    assert.equal(await store.endSilence(long.id), true)
    assert.equal(await store.endSilence(long.id), false)
    assert.equal(await store.endSilence('slnc_x'), false)
    assert.deepEqual((await store.readAlerts()).silences, [later])
  })
}
