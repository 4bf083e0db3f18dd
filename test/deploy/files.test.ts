import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parse } from 'yaml'
import { runHere } from '../cli/program.ts'
import { sqlitePlace } from '../e2e/place.ts'
import { Program } from '../e2e/program.ts'
import { isSent, packageJson, read, root, runTool, variables, without, written } from './files.ts'

const dockerfile = read('deploy/Dockerfile')

describe('the files of deploy/', () => {
  test('name variables that exist', () => {
    const unknown = written.flatMap((path) =>
      [...read(path).matchAll(/\bSLUICE_[A-Z_]*[A-Z]\b/g)]
        .filter(([name]) => !variables.has(name))
        .map(([name]) => `${path}: ${name}`),
    )
    assert.deepEqual(unknown, [])
  })

  test('run commands that exist, with their options', async () => {
    const lines = [
      ...written
        .filter((path) => path.endsWith('.service'))
        .map((path) => /^ExecStart=\S*\/sluice (.*)$/m.exec(read(path))?.[1]?.split(' ') ?? []),
      ...[...dockerfile.matchAll(/CMD (\[.*\])$/gm)].map(([, list = '[]']) =>
        (JSON.parse(list) as string[]).filter((word) => !word.endsWith('/sluice')),
      ),
      ...Object.values<{ command?: string[]; image?: string }>(
        parse(read('deploy/compose/postgres.yaml'), { merge: true }).services,
      )
        .filter(({ image }) => image === 'sluice')
        .map(({ command = [] }) => command),
      ['serve'],
      ['worker'],
    ]
    assert.equal(lines.length, 9)
    for (const [command = '', ...rest] of lines) {
      const { out, ended } = await runHere([command, '--help'], { directory: root }, {})
      assert.equal(ended, 0, command)
      for (const flag of rest.filter((word) => word.startsWith('--')))
        assert(out.includes(`${flag} `), `${command} ${flag}`)
    }
  })

  test('probe paths that a server and a worker answer, at the ports of the image', async (t) => {
    const ports = new Set(dockerfile.match(/^EXPOSE (.*)$/m)?.[1]?.split(' '))
    const [, listen, metrics] =
      /SLUICE_LISTEN=0\.0\.0\.0:(\d+)[\s\S]*SLUICE_METRICS_LISTEN=0\.0\.0\.0:(\d+)/.exec(dockerfile) ?? []
    assert.deepEqual(ports, new Set([listen, metrics]))
    const pod = read('deploy/helm/sluice/templates/_helpers.tpl')
    assert.match(pod, new RegExp(`SLUICE_LISTEN\\s+value: 0\\.0\\.0\\.0:${listen}`))
    assert.match(pod, new RegExp(`SLUICE_METRICS_LISTEN\\s+value: 0\\.0\\.0\\.0:${metrics}`))
    assert.deepEqual(
      [...pod.matchAll(/containerPort: (\d+)/g)].map(([, port]) => port),
      [listen, metrics],
    )
    assert.match(read('deploy/compose/prometheus.yaml'), new RegExp(`port: ${metrics}$`, 'm'))

    const { store } = await sqlitePlace(t)
    const server = await Program.start(t, 'serve', store, { SLUICE_METRICS_LISTEN: '127.0.0.1:0' })
    const metricsUrl = /"metrics":"(http:[^"]*)\/metrics"/.exec(server.logged)?.[1]
    const probes = [...pod.matchAll(/httpGet: \{ path: (\S+), port: (\w+) \}/g)]
    assert.equal(probes.length, 3)
    for (const [, path = '', port] of probes) {
      const base = port === 'metrics' ? metricsUrl : new URL(server.api).origin
      assert((await fetch(`${base}${path}`)).ok, `${port}${path}`)
    }
  })

  test('the image has the Node of package.json, and its context has the files that are copied and no secrets', () => {
    assert.equal(/^FROM node:([\d.]+)-/m.exec(dockerfile)?.[1], packageJson.devDependencies.node)
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, list = '']) => list.split(' '))
    for (const path of copied.filter((each) => each !== '.')) {
      assert(existsSync(join(root, path)), `${path} does not exist`)
      assert(isSent(path), `${path} is not sent`)
    }
    for (const path of [
      '.git/HEAD',
      'data/sluice.db',
      'data/encryption.key',
      'node_modules/x/y.js',
      'ui/dist/index.html',
      'deploy/compose/.env',
      'test/run.ts',
    ]) {
      assert(!isSent(path), `${path} is sent`)
    }
  })

  test('the image runs as another user than root, with a health check', () => {
    assert.match(dockerfile, /^USER 65532:65532$/m)
    assert.match(dockerfile, /^HEALTHCHECK /m)
    assert.match(read('deploy/helm/sluice/templates/_helpers.tpl'), /runAsUser: 65532\n/)
  })

  test('every file that a compose file mounts exists', () => {
    for (const name of ['sqlite', 'postgres']) {
      const { services, volumes } = parse(read(`deploy/compose/${name}.yaml`), { merge: true })
      for (const { volumes: mounts = [] } of Object.values<{ volumes?: string[] }>(services)) {
        for (const mount of mounts) {
          const [source = ''] = mount.split(':')
          if (source.startsWith('.')) assert(existsSync(join(root, 'deploy/compose', source)), source)
          else assert(source in volumes, source)
        }
      }
    }
    const { services } = parse(read('deploy/compose/postgres.yaml'), { merge: true })
    assert.equal(services.worker.deploy.replicas, 3)
    const asked = new Set(
      [...read('deploy/compose/postgres.yaml').matchAll(/\$\{(\w+)/g)].map(([, variable]) => variable),
    )
    const offered = new Set(
      [...read('deploy/compose/example.env').matchAll(/^(\w+)=/gm)].map(([, variable]) => variable),
    )
    assert.deepEqual(asked, offered)
  })

  test('docker compose accepts the compose files', { skip: without('docker', 'compose', 'version') }, () => {
    const asked = [...read('deploy/compose/example.env').matchAll(/^(\w+)=/gm)].map(([, name = '']) => [name, 'x'])
    const env = { ...process.env, ...Object.fromEntries(asked) }
    for (const name of ['sqlite', 'postgres']) {
      runTool('docker', ['compose', '-f', `deploy/compose/${name}.yaml`, 'config', '--quiet'], { cwd: root, env })
    }
  })
})
