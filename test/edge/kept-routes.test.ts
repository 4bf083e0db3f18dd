import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Receiver } from '../e2e/receiver.ts'
import { Edge, messageId, secret, signed, skip } from './edge.ts'

/** More than a Worker may have variables. */
const receivers = 300

test(`${receivers} receivers behind one Worker are entries in KV, each with its secret`, { skip }, async (t) => {
  const receiver = await Receiver.listen(t)
  const other = 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
  const kept = Object.fromEntries(
    Array.from({ length: receivers }, (_, i) => [
      `r${i}`,
      { to: `${receiver.url}/${i}`, allowHttp: true, secret: i === 1 ? other : secret },
    ]),
  )
  const entries = {
    ...kept,
    fixed: { to: `${receiver.url}/never`, allowHttp: true, secret },
    bare: { to: `${receiver.url}/bare`, allowHttp: true },
    late: {
      mode: 'coalesce',
      to: `${receiver.url}/late`,
      allowHttp: true,
      secret,
      type: 'x',
      key: '/a',
      windowSeconds: 1,
    },
    wrong: { to: `${receiver.url}/wrong`, allowHttp: true, secret, colour: 'red' },
  }
  const edge = await Edge.start(t, { fixed: { mode: 'relay', to: `${receiver.url}/fixed` } }, {}, entries)
  for (const i of [0, 7, receivers - 1]) {
    const sent = signed(messageId(), '{}')
    assert.equal((await edge.send(`/r${i}`, sent)).status, 200)
    // The same delivery again is recognized, as on any relay.
    assert.equal((await edge.send(`/r${i}`, sent)).status, 200)
    assert.equal(receiver.arrivals.filter(({ path }) => path === `/${i}`).length, 1)
  }
  assert.equal((await edge.send('/r1', signed(messageId(), '{}'))).status, 401, 'signed with the secret of others')
  assert.equal((await edge.send('/fixed', signed(messageId(), '{}'))).status, 200)
  assert.deepEqual(
    receiver.arrivals.map(({ path }) => path).filter((path) => path === '/fixed' || path === '/never'),
    ['/fixed'],
    'a variable goes before an entry',
  )
  for (const name of ['bare', 'late', 'wrong']) {
    assert.equal((await edge.send(`/${name}`, signed(messageId(), '{}'))).status, 500, name)
  }
  for (const name of ['r300', 'R0', 'r0/x', '..', '%2e%2e']) {
    assert.equal((await edge.send(`/${name}`, signed(messageId(), '{}'))).status, 404, name)
  }
  assert.equal((await edge.operate('GET', '/-/status/r7')).status, 200)
})
