import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { pemBlocks, readPrivateKey } from '../../src/wire/certificate.ts'

/** An RSA key in the form of PKCS #1, from any numbers. */
function rsaPem(numbers: readonly bigint[]): string {
  const integers = [0n, ...numbers].map((number) => {
    const hex = number.toString(16)
    const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')
    return der(2, (bytes[0] as number) < 128 ? bytes : Buffer.concat([Buffer.alloc(1), bytes]))
  })
  const base64 = der(0x30, Buffer.concat(integers)).toString('base64')
  return `-----BEGIN RSA PRIVATE KEY-----\n${base64.replaceAll(/.{64}/g, '$&\n')}\n-----END RSA PRIVATE KEY-----\n`
}

function der(tag: number, bytes: Buffer): Buffer {
  const { length } = bytes
  const long = [length >> 16, (length >> 8) & 255, length & 255].filter((byte, i, all) => byte > 0 || all[i - 1])
  const head = length < 128 ? [tag, length] : [tag, 128 + long.length, ...long]
  return Buffer.concat([Buffer.from(head), bytes])
}

const jwk = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })
const [n, e, d, p, q, dp, dq, qi] = [jwk.n, jwk.e, jwk.d, jwk.p, jwk.q, jwk.dp, jwk.dq, jwk.qi].map((part) =>
  BigInt(`0x${Buffer.from(part ?? '', 'base64url').toString('hex')}`),
) as [bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint]

test('an RSA key of usual numbers is read', () => {
  assert.equal(typeof readPrivateKey(rsaPem([n, e, d, p, q, dp, dq, qi])), 'object')
})

test('an RSA key whose private exponent would hold the loop is refused before it signs', () => {
  // It is as good a key: the exponent counts modulo (p - 1)(q - 1).
  const multiple = BigInt(`0x${randomBytes(20_000).toString('hex')}`)
  const slow = d + (p - 1n) * (q - 1n) * multiple
  for (const numbers of [
    [n, e, slow, p, q, dp, dq, qi],
    [n, e, d, p, q, dp + (p - 1n) * multiple, dq, qi],
    [n, slow, d, p, q, dp, dq, qi],
  ]) {
    assert.match(String(readPrivateKey(rsaPem(numbers))), /must not be longer than 8192/)
  }
})

test('an RSA key with a private exponent of twice the usual length is refused', () => {
  const long = d + (p - 1n) * (q - 1n) * BigInt(`0x${randomBytes(256).toString('hex')}`)
  assert.match(String(readPrivateKey(rsaPem([n, e, long, p, q, dp, dq, qi]))), /unusual size|cannot be read/)
})

test('an RSA key of random numbers is refused: it cannot sign', () => {
  const odd = (bytes: number) => BigInt(`0x${randomBytes(bytes).toString('hex')}`) | 1n | (1n << BigInt(bytes * 8 - 1))
  const numbers = [odd(256), 65537n, odd(256), odd(128), odd(128), odd(128), odd(128), odd(128)]
  assert.match(String(readPrivateKey(rsaPem(numbers))), /cannot sign|cannot be read/)
})

test('only the first blocks of a text are looked at', () => {
  assert.equal(pemBlocks('-----BEGIN X-----\n-----END X-----\n'.repeat(2000)).length, 16)
  assert.deepEqual(pemBlocks('-----BEGIN X-----'.repeat(4000)), [])
})
