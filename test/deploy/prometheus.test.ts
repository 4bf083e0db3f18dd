import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { parse } from 'yaml'
import { measures } from '../../src/metrics/measures.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { sqlitePlace } from '../e2e/place.ts'
import { Program } from '../e2e/program.ts'
import { read, root, runTool, without } from './files.ts'

const noPromtool = without('promtool')
const rules = join(root, 'deploy/prometheus-rules.yaml')

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  return folder
}

/** A server that offers metrics, and their address. */
async function scraped(t: TestContext): Promise<string> {
  const { store } = await sqlitePlace(t)
  const server = await Program.start(t, 'serve', store, { SLUICE_METRICS_LISTEN: '127.0.0.1:0' })
  return /"metrics":"http:\/\/([^"/]*)\/metrics"/.exec(server.logged)?.[1] ?? assert.fail(server.logged)
}

test('promtool finds nothing to improve in the rules, the configuration and the metrics', {
  skip: noPromtool,
}, async (t) => {
  runTool('promtool', ['check', 'rules', '--lint=all', '--lint-fatal', rules])
  const folder = folderOf(t)
  const config = join(folder, 'prometheus.yaml')
  writeFileSync(config, read('deploy/compose/prometheus.yaml').replace('/etc/prometheus/rules/*.yaml', rules))
  runTool('promtool', ['check', 'config', '--lint=all', config])
  const text = await (await fetch(`http://${await scraped(t)}/metrics`)).text()
  runTool('promtool', ['check', 'metrics'], { input: text })
})

test('every alert fires in a system in which everything is wrong, and none in one that is well', {
  skip: noPromtool,
}, (t) => {
  /** Thirty minutes of samples, one a minute: a gauge stays, a counter grows. */
  const stays = (value: number) => `${value}x30`
  const grows = (step: number) => `0+${step}x30`
  const sick: Record<string, string> = {
    [`${measures.waiting.name}{class="fresh"}`]: stays(2000),
    [`${measures.endpointWaiting.name}{application="acme",endpoint="main"}`]: stays(900),
    [measures.inFlight.name]: stays(99),
    [measures.inFlightLimit.name]: stays(100),
    [`${measures.deliveryWait.name}_bucket{le="1"}`]: grows(1),
    [`${measures.deliveryWait.name}_bucket{le="60"}`]: grows(50),
    [`${measures.deliveryWait.name}_bucket{le="300"}`]: grows(100),
    [`${measures.deliveryWait.name}_bucket{le="+Inf"}`]: grows(100),
    [`${measures.attempts.name}{outcome="refused"}`]: grows(50),
    [`${measures.deliveriesEnded.name}{end="delivered"}`]: grows(100),
    [measures.behind.name]: stays(10),
    [`${measures.circuits.name}{state="open"}`]: stays(1),
    // Far more dead letters in the last ten minutes than in the ten before.
    [`${measures.deadLetters.name}{reason="exhausted"}`]: '0+1x20 40+40x10',
    [`${measures.workers.name}{state="dead"}`]: stays(1),
    [measures.scheduleLag.name]: stays(900),
    [measures.diskFree.name]: stays(1000),
    [measures.walSize.name]: stays(1e9),
  }
  const well = Object.fromEntries(Object.keys(sick).map((series) => [series, stays(0)]))
  well[measures.inFlightLimit.name] = stays(100)
  well[measures.diskFree.name] = stays(1e12)
  const alerts: string[] = parse(read('deploy/prometheus-rules.yaml')).groups[0].rules.map(
    ({ alert }: { alert: string }) => alert,
  )
  const testOf = (series: Record<string, string>, isSick: boolean) => ({
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: '29m',
        exp_samples: isSick ? alerts.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })) : [],
      },
    ],
  })
  const file = join(folderOf(t), 'test.json')
  writeFileSync(
    file,
    JSON.stringify({
      rule_files: [rules],
      evaluation_interval: '1m',
      tests: [testOf(sick, true), testOf(well, false)],
    }),
  )
  runTool('promtool', ['test', 'rules', file])
})

test('Prometheus scrapes a server and evaluates every rule', { skip: without('prometheus') }, async (t) => {
  const folder = folderOf(t)
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [rules],
    scrape_configs: [{ job_name: 'sluice', static_configs: [{ targets: [await scraped(t)] }] }],
  }
  writeFileSync(join(folder, 'prometheus.json'), JSON.stringify(config))
  const line = ['--config.file=prometheus.json', '--storage.tsdb.path=data', '--web.listen-address=127.0.0.1:0']
  const prometheus = spawn('prometheus', line, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = once(prometheus, 'exit')
  atEnd(t, async () => {
    prometheus.kill('SIGKILL')
    await exited
  })
  let logged = ''
  prometheus.stderr.setEncoding('utf8').on('data', (text) => {
    logged += text
  })
  const address = await eventually('it listens', () => /msg="Listening on" .*address=(\S+)/.exec(logged)?.[1])
  // biome-ignore lint/suspicious/noExplicitAny: answers of Prometheus.
  const ask = async (path: string): Promise<any> => {
    const answer = (await (await fetch(`http://${address}/api/v1/${path}`)).json()) as { data: unknown }
    return answer.data
  }
  await eventually('it is ready', async () => (await fetch(`http://${address}/-/ready`)).ok)
  await eventually('the server is scraped', async () => {
    const { activeTargets } = await ask('targets')
    return activeTargets[0]?.health === 'up'
  })
  const evaluated = await eventually('every rule is evaluated', async () => {
    const { groups } = await ask('rules')
    const list: { name: string; health: string; lastError?: string }[] = groups[0]?.rules ?? []
    return list.length > 0 && list.every(({ health }) => health !== 'unknown') && list
  })
  assert.deepEqual(
    evaluated.filter(({ health }) => health !== 'ok'),
    [],
  )
  assert.equal((await ask('query?query=sluice_store_up')).result[0]?.value[1], '1')
})
