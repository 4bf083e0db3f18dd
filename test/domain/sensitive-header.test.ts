import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSensitiveHeader } from '../../src/domain/sensitive-header.ts'

test('a header is a secret by its name', () => {
  const secrets = [
    'Authorization',
    'x-api-key',
    'apikey',
    'X-Auth-Token',
    'cookie',
    'www-authenticate',
    'client-secret',
  ]
  for (const name of [...secrets, 'x-auth', 'token', 'X-Signature', 'password', 'x-acmeapikey-2']) {
    assert.equal(isSensitiveHeader(name), true, name)
  }
  for (const name of ['x-tenant', 'x-keyboard', 'x-author', 'accept', 'x-tokenized', 'x-monkey', 'x-region']) {
    assert.equal(isSensitiveHeader(name), false, name)
  }
})
