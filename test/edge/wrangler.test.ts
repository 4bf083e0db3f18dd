import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { buildWorker } from '../../edge/build.ts'
import { bindings, compatibility } from '../../edge/local.ts'
import { Edge, skip } from './edge.ts'

interface Configuration {
  readonly main: string
  readonly compatibility_date: string
  readonly compatibility_flags: readonly string[]
  readonly durable_objects: { readonly bindings: readonly { readonly name: string; readonly class_name: string }[] }
  readonly migrations: readonly { readonly new_sqlite_classes: readonly string[] }[]
  readonly vars: Readonly<Record<string, { readonly mode: string }>>
}

const script = 'import json, sys, tomllib; print(json.dumps(tomllib.load(open(sys.argv[1], "rb"))))'
const parsed = spawnSync('python3', ['-c', script, join(import.meta.dirname, '../../edge/wrangler.toml')])
const noParser = parsed.status === 0 ? undefined : 'no Python with tomllib reads TOML here'

describe('wrangler.toml', { skip: noParser ?? skip }, () => {
  const config = (noParser === undefined ? JSON.parse(String(parsed.stdout)) : {}) as Configuration

  test('names the bundle, the date, and every Durable Object with its SQLite storage, as the tests have them', async () => {
    assert.equal(config.main, 'dist/worker.js')
    assert.deepEqual([config.compatibility_date, config.compatibility_flags], [compatibility.date, compatibility.flags])
    const bound = config.durable_objects.bindings.map(({ name, class_name }) => [name, class_name])
    assert.deepEqual(bound, Object.entries(bindings))
    const classes = bound.map(([, className]) => className)
    assert.deepEqual(
      config.migrations.flatMap((migration) => migration.new_sqlite_classes),
      classes,
    )
    const code = await buildWorker()
    const exported = /export \{([^}]*)\};?\s*$/
      .exec(code)?.[1]
      ?.split(',')
      .map((name) => name.trim())
    assert.deepEqual(exported?.sort(), [...classes, 'worker as default'].sort())
  })

  test('has an example of each mode, and all work together', async (t) => {
    const routes = Object.entries(config.vars).map(([name, route]) => [name.replace(/^ROUTE_/, ''), route] as const)
    assert.deepEqual(routes.map(([, { mode }]) => mode).sort(), ['coalesce', 'ingress', 'relay'])
    const edge = await Edge.start(t, Object.fromEntries(routes))
    const health = await edge.send('/-/health', { method: 'GET' })
    assert.deepEqual([health.status, JSON.parse(health.body)], [200, { healthy: true, routes: 3 }])
  })
})
