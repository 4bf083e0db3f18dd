import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { parse } from 'yaml'
import { type Served, served, workplace } from './program.ts'

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

describe('apply and export', () => {
  const where = workplace()
  let place: Served
  const write = (name: string, text: string) => writeFileSync(join(place.directory, name), text)
  before(async () => {
    place = await served(where)
  })

  const state = `
eventTypes:
  - { name: invoice.paid, description: An invoice was paid }
applications:
  - uid: acme
    name: Acme Inc.
    defaultRate: 50
    metadata: { plan: gold }
    endpoints:
      - uid: main
        url: https://receiver.example/hooks
        eventTypes: [invoice.paid]
        retry: { waits: { kind: list, ms: [1000, 60000] } }
        secret: { file: secret.txt }
        headers: { x-team: billing }
    schedules:
      - { uid: nightly, cron: '0 3 * * *', eventType: invoice.paid, payload: { all: true } }
    sources:
      - { uid: code, provider: github, secret: github-secret }
  - uid: globex
    name: Globex
    endpoints: []
`

  test('a file becomes the state of the server, and a second run changes nothing', async () => {
    const { sluice, json } = place
    write('secret.txt', `${secret}\n`)
    write('sluice.yaml', state)
    const dry = await sluice('apply -f sluice.yaml --dry-run')
    assert.match(dry, /^\+ event type invoice\.paid$/m)
    assert.match(dry, /^\+ endpoint main of acme\n(.*\n)* {4}secret: \(hidden\)$/m)
    assert.match(dry, /6 to create, 0 to change, 0 to delete\. Nothing was changed\.\n$/)
    assert.doesNotMatch(dry, /whsec|github-secret|billing/)
    assert.deepEqual(await json('app list'), [])
    assert.match(await sluice('apply -f sluice.yaml'), /6 created, 0 changed, 0 deleted\.\n$/)
    assert.equal((await json('app get acme')).defaultRate, 50)
    assert.equal((await sluice('endpoint secret acme main')).trim(), secret)
    assert.deepEqual((await json('schedule get acme nightly')).payload, { all: true })
    assert.equal((await json('source get code --app acme')).provider, 'github')
    assert.match(await sluice('apply -f sluice.yaml'), /has the state of the file already\.\n$/)
  })

  test('only what differs is changed; hidden fields are written again when that is asked for', async () => {
    const { sluice, json } = place
    write('sluice.yaml', state.replace('Acme Inc.', 'Acme').replace('60000', '90000'))
    const changed = await sluice('apply -f sluice.yaml')
    assert.match(changed, /^~ application acme\n {4}name: "Acme Inc\." → "Acme"$/m)
    assert.match(changed, /0 created, 2 changed, 0 deleted\.\n$/)
    const other = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
    write('secret.txt', other)
    assert.match(await sluice('apply -f sluice.yaml'), /already/)
    await sluice('apply -f sluice.yaml --secrets')
    assert.equal((await sluice('endpoint secret acme main')).trim(), other)
    assert.equal((await json('endpoint get acme main')).url, 'https://receiver.example/hooks')
  })

  test('surplus is deleted with --prune alone, and only from lists that the file has', async () => {
    const { sluice, json, try: attempt } = place
    await sluice('endpoint create globex https://receiver.example/ --uid surplus')
    await sluice('source create github --app globex --uid kept')
    write('sluice.yaml', state.replace('Acme Inc.', 'Acme').replace('60000', '90000'))
    assert.match(await sluice('apply -f sluice.yaml'), /already/)
    const refused = await attempt('apply -f sluice.yaml --prune', 'n')
    assert.match(refused.err, /Delete endpoint surplus, with all that waits for them\? \[y\/N\] Nothing was changed/)
    assert.match(
      await sluice('apply -f sluice.yaml --prune'),
      /^- endpoint surplus of globex\n0 created, 0 changed, 1 deleted/,
    )
    assert.deepEqual(await json('endpoint list globex'), [])
    assert.equal((await json<unknown[]>('source list --app globex')).length, 1)
  })

  test('an export is a file that apply finds nothing to do for', async () => {
    const { sluice } = place
    const text = await sluice('export')
    assert.doesNotMatch(text, /whsec|billing/)
    const [acme] = parse(text).applications
    assert.deepEqual(Object.keys(acme.endpoints[0]), ['uid', 'url', 'eventTypes', 'retry'], 'defaults are left out')
    assert.deepEqual([acme.uid, acme.endpoints[0].uid, acme.schedules[0].uid], ['acme', 'main', 'nightly'])
    assert.match(await sluice('apply -f -', 0, text), /already/)
    assert.match(await sluice('export --app acme --secrets'), /secret: whsec_/)
  })

  test('a wrong file changes nothing, and every place is named', async () => {
    const { sluice, try: attempt, json } = place
    write(
      'wrong.yaml',
      `
eventType: []
applications:
  - name: No uid
  - { uid: .., name: Folded }
  - uid: a
    name: A
    endpoints:
      - { uid: e, url: https://receiver.example/, throtleRate: 5, secret: { env: NOT_SET } }
      - { uid: e, url: https://receiver.example/ }
      - { uid: f, url: https://receiver.example/, secret: { file: missing.txt } }
`,
    )
    const { ended, err } = await attempt('apply -f wrong.yaml')
    assert.equal(ended, 2)
    for (const problem of [
      'eventType: the file has eventTypes and applications alone.',
      'applications[0]: needs a uid.',
      'applications[1]: ".." names nothing in a URL.',
      'applications.a.endpoints.e.throtleRate: unknown field; did you mean throttleRate?',
      'applications.a.endpoints.e.secret: the variable NOT_SET is not set.',
      'applications.a.endpoints[1]: uid e stands here twice.',
      'applications.a.endpoints.f.secret: the file missing.txt cannot be read (ENOENT).',
    ]) {
      assert.ok(err.includes(problem), `${problem}\n${err}`)
    }
    assert.equal((await json<unknown[]>('app list')).length, 2)
    await sluice('apply -f missing.yaml', 2)
    await sluice('apply -f -', 2, 'a: [')
  })

  test('a thing that the server refuses is named, and everything else is done', async () => {
    const { try: attempt, json, sluice } = place
    write(
      'half.yaml',
      `
applications:
  - uid: half
    name: Half
    endpoints:
      - { uid: good, url: https://receiver.example/ }
      - { uid: bad, url: http://10.0.0.1/ }
  - { uid: has space, name: Spaced, endpoints: [{ uid: x, url: https://receiver.example/ }] }
`,
    )
    const { ended, err, out } = await attempt('apply -f half.yaml')
    assert.equal(ended, 1)
    assert.match(err, /endpoint bad of half: Invalid request:/)
    assert.match(err, /application has space: /)
    assert.match(err, /endpoint x of has space: its application was not created/)
    assert.match(out, /3 of 5 steps failed/)
    assert.deepEqual(
      (await json<{ uid: string }[]>('endpoint list half')).map(({ uid }) => uid),
      ['good'],
    )
    await sluice('app delete half --yes')
  })
})
