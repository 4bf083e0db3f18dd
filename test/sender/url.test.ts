import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AddressPolicy, checkUrl } from '../../src/sender/guard.ts'

const strict = new AddressPolicy({ allowNetworks: [] })
const local = new AddressPolicy({ allowNetworks: ['127.0.0.0/8', '::1/128', '10.0.0.0/8'] })

test('an ordinary https URL is accepted', () => {
  for (const url of [
    'https://example.com',
    'https://example.com/hook?x=1&y=%20',
    'HTTPS://Example.COM:8443/',
    'https://example.com.:443/',
    'https://1.1.1.1/',
    'https://[2606:4700:4700::1111]:1024/',
    'https://bücher.example/',
    'https://my_host.example.com/',
    'https://example.com/#fragment',
    'https://example.com/a b?c d ',
    `https://example.com/${'a'.repeat(4000)}`,
  ]) {
    assert.deepEqual(checkUrl(url, strict), [], url)
  }
})

test('an invalid or disguised URL is refused', () => {
  for (const url of [
    '',
    'example.com',
    '//example.com',
    'ftp://example.com/',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https:example.com',
    'https:/example.com',
    'https:\\\\example.com',
    'https://',
    'https://example.com:65536/',
    'https://example.com:0/',
    'https://example.com:x/',
    'https://user@example.com/',
    'https://user:secret@example.com/',
    'https://:secret@example.com/',
    ' https://example.com/',
    'https://exam\nple.com/',
    'https://exam\tple.com/',
    'https://example.com/\r\nx: y',
    'https://example.com/\u0000',
    'https://example.com/\u007f',
    'https://exam ple.com/',
    'https://[fe80::1%25eth0]/',
    'https://[example.com]/',
    'https://a..b/',
    'https://a.example../',
    `https://${'a'.repeat(64)}.example.com/`,
    `https://${'a.'.repeat(126)}example/`,
    `https://example.com/${'a'.repeat(4096)}`,
    'https://%00.example.com/',
  ]) {
    assert.notDeepEqual(checkUrl(url, strict), [], JSON.stringify(url))
  }
})

test('a refused host is one problem, whatever the scheme and the port', () => {
  const remedy =
    'The operator can permit it with --local on its own machine, or with allowNetworks (such as SLUICE_ALLOW_NETWORKS=127.0.0.1).'
  const address = [`The address 127.0.0.1 is not public. ${remedy}`]
  assert.deepEqual(checkUrl('http://127.0.0.1:9000/', strict), address)
  assert.deepEqual(checkUrl('http://127.0.0.1:22/', strict), address)
  assert.deepEqual(checkUrl('http://localhost:22/', strict), [`The host name localhost is not public. ${remedy}`])
  assert.deepEqual(checkUrl('http://10.0.0.5/', strict), [
    'The address 10.0.0.5 is not public. The operator can permit it with allowNetworks (such as SLUICE_ALLOW_NETWORKS=10.0.0.5).',
  ])
})

const noHttps = 'The URL does not use https. The operator can permit http with allowHttp (SLUICE_ALLOW_HTTP).'

test('plain http needs leave, or an address on an allowed network', () => {
  const http = new AddressPolicy({ allowNetworks: [], allowHttp: true })
  assert.deepEqual(checkUrl('http://example.com/', strict), [noHttps])
  assert.deepEqual(checkUrl('http://example.com/', http), [])
  assert.deepEqual(checkUrl('http://example.com/', local), [noHttps])
  for (const url of ['http://127.0.0.1:3000/', 'http://[::1]:3000/', 'http://10.1.2.3/', 'http://localhost:3000/']) {
    assert.deepEqual(checkUrl(url, local), [], url)
    assert.notDeepEqual(checkUrl(url, http), [], url)
  }
  assert.deepEqual(checkUrl('http://receiver:3000/', local), [noHttps], 'only its addresses can tell')
})

test('only ports where a web server may be are accepted, except on an allowed network', () => {
  for (const port of [
    1, 22, 25, 79, 81, 444, 1023, 2049, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 6379, 8500, 9092, 9200,
  ]) {
    assert.equal(checkUrl(`https://example.com:${port}/`, strict).length, 1, String(port))
    assert.equal(checkUrl(`https://example.com:${port}/`, local).length, 1, String(port))
    assert.deepEqual(checkUrl(`https://10.0.0.1:${port}/`, local), [], String(port))
    assert.deepEqual(checkUrl(`https://localhost:${port}/`, local), [], String(port))
  }
  for (const port of [10250, 11211, 15672, 27017])
    assert.equal(checkUrl(`https://example.com:${port}/`, strict).length, 1)
  for (const port of [80, 443, 1024, 8080, 8443, 65535])
    assert.deepEqual(checkUrl(`https://example.com:${port}/`, strict), [])
})

test('every problem is named at once', () => {
  assert.equal(checkUrl('http://user@example.com:22/', strict).length, 3)
  assert.equal(checkUrl('http://user@10.0.0.1:22/', strict).length, 2)
})
