import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readTemplates, templateProblem } from '../../src/wire/headers.ts'

const values = {
  eventType: 'video.new',
  attempt: 3,
  deliveryId: 'msg_1.ep_2',
  messageId: 'msg_1',
  endpointId: 'ep_2',
  timestamp: '1700000000',
}

for (const [template, expected] of [
  ['{eventType}', 'video.new'],
  ['try {attempt} of {messageId}', 'try 3 of msg_1'],
  ['{deliveryId}', 'msg_1.ep_2'],
  ['t={timestamp};e={endpointId}', 't=1700000000;e=ep_2'],
  ['{eventType}{eventType}', 'video.newvideo.new'],
  ['plain', 'plain'],
  ['', ''],
] as const) {
  test(`the template ${JSON.stringify(template)} makes ${JSON.stringify(expected)}`, () => {
    assert.equal(templateProblem('X-Any', template), undefined)
    const [read] = readTemplates({ 'X-Any': template }) ?? []
    assert.deepEqual([read?.name, read?.fill(values)], ['X-Any', expected])
  })
}

for (const [name, template, problem] of [
  ['X-A', '{payload}', /braces/],
  ['X-A', '{constructor}', /braces/],
  ['X-A', '{}', /braces/],
  ['X-A', 'a { b', /braces/],
  ['X-A', '{{eventType}}', /braces/],
  ['X-A', '}{', /braces/],
  ['X-A', '{attempt}'.repeat(5), /at most 4 values/],
  ['X-A', 'x'.repeat(257), /at most 256 characters/],
  ['X-A', 'a\r\nX-B: c', /control characters/],
  ['X-A', 'a\0', /control characters/],
  ['X A', 'a', /not a header name/],
  ['__proto__', 'a', /not a header name/],
  ['', 'a', /not a header name/],
  ['Content-Length', '0', /reserved/],
  ['webhook-ID', '{messageId}', /reserved/],
  ['Host', 'a', /reserved/],
  ['X-Amz-Date', '{timestamp}', /reserved/],
  ['Authorization', 'Bearer abc', /secret/],
] as const) {
  test(`the header ${JSON.stringify(name)} with ${JSON.stringify(template.slice(0, 40))} is refused`, () => {
    assert.match(templateProblem(name, template) ?? '', problem)
  })
}

test('a User-Agent, and a key that is made from the delivery, are allowed', () => {
  assert.equal(templateProblem('user-Agent', 'Acme-Hooks/1.0'), undefined)
  assert.equal(templateProblem('Idempotency-Key', '{deliveryId}'), undefined)
})

test('a stored template that is reserved is left out, and one that cannot be sent makes all unusable', () => {
  const names = readTemplates({ 'X-Good': 'a', 'webhook-id': 'b', Host: 'c' })?.map(({ name }) => name)
  assert.deepEqual(names, ['X-Good'])
  for (const bad of [{ 'X A': 'a' }, { 'X-A': 'a\r\nb' }, { 'X-A': '{nothing}' }]) {
    assert.equal(readTemplates({ 'X-Good': 'a', ...bad }), undefined)
  }
})
