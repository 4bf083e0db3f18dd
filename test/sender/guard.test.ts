import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AddressPolicy, isPublic } from '../../src/sender/guard.ts'
import { readNetwork } from '../../src/wire/network.ts'

const notPublic = [
  ...[
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '10.255.255.255',
    '100.64.0.1',
    '100.127.255.255',
    '127.0.0.1',
    '127.255.255.255',
  ],
  ...['168.63.129.16', '169.254.169.254', '172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.0.192', '192.0.2.1'],
  ...['192.31.196.1', '192.52.193.1', '192.88.99.1', '192.168.0.1', '192.175.48.1', '198.18.0.1', '198.19.255.255'],
  ...['198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255'],
  ...['::', '::1', '::7f00:1', '::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:8.8.8.8', '::ffff:0:7f00:1'],
  ...[
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
    '100::1',
    '100:0:0:1::1',
    '2001::1',
    '2001:0:7f00:1::',
    '2001:10::1',
    '2001:db8::1',
  ],
  ...['2002:7f00:1::', '2620:4f:8000::1', '3fff::1', '4000::1', '5f00::1', 'fc00::1', 'fd00:ec2::254', 'fd20:ce::254'],
  ...['fe80::1', 'fe80::1%eth0', 'febf::1', 'fec0::1', 'ff02::1', 'ffff::1'],
]
const publicOnes = [
  ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '93.184.216.34', '100.63.255.255', '100.128.0.0', '128.0.0.1'],
  ...['168.63.129.15', '168.63.129.17', '172.15.255.255', '172.32.0.0', '192.0.1.0', '198.17.255.255', '198.20.0.0'],
  ...['223.255.255.255', '2001:200::1', '2606:4700:4700::1111', '2a00:1450:4001::1', '3ffe::1'],
]

test('an address outside the public internet is refused', () => {
  for (const address of notPublic) assert.equal(isPublic(address), false, address)
})

test('a public address is permitted', () => {
  for (const address of publicOnes) assert.equal(isPublic(address), true, address)
})

test('a text that is not an address is refused', () => {
  const policy = new AddressPolicy({ allowNetworks: ['0.0.0.0/0', '::/0'] })
  for (const text of [
    '',
    'localhost',
    'example.com',
    '127.1',
    '0x7f000001',
    '2130706433',
    '1.2.3.4.5',
    '[::1]',
    'nowhere',
  ]) {
    assert.equal(isPublic(text), false, text)
    assert.equal(policy.permits(text), false, text)
  }
})

test('an allowed network is permitted beside the public internet, and nothing else is', () => {
  const policy = new AddressPolicy({ allowNetworks: ['10.1.0.0/16', '::1/128', '192.168.1.7'] })
  for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '::1', '192.168.1.7', '8.8.8.8']) {
    assert.equal(policy.permits(address), true, address)
  }
  for (const address of ['10.2.0.1', '::2', '192.168.1.8', '127.0.0.1', '169.254.169.254']) {
    assert.equal(policy.permits(address), false, address)
  }
  assert.equal(policy.inAllowedNetwork('8.8.8.8'), false)
})

test('a network is an address with or without a prefix length, and a mistake is named', () => {
  for (const text of ['127.0.0.0/8', '0.0.0.0/0', '::1/128', '::/0', '10.1.2.3', 'fd00::/8'])
    assert.ok(readNetwork(text), text)
  for (const text of [
    '',
    '/8',
    '127.0.0.0/33',
    '127.0.0.0/-1',
    '127.0.0.0/8x',
    '127.0/8',
    '::1/129',
    'fe80::1%eth0/64',
    'home',
  ]) {
    assert.equal(readNetwork(text), undefined, text)
    assert.throws(() => new AddressPolicy({ allowNetworks: ['10.0.0.0/8', text] }), RangeError)
  }
})
