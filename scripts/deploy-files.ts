import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultRules, type Figure, type FigureName, figures, leastFailures } from '../src/features/alerts/figures.ts'
import type { AlertRule } from '../src/features/alerts/rules.ts'
import { type Measure, type MeasureName, measures } from '../src/metrics/measures.ts'
import { helmValuesSchema } from './helm-schema.ts'

// Makes the rules of Prometheus, the dashboard of Grafana and the schema of the Helm values from the tables of alert rules,
// metrics and settings.
// `node scripts/deploy-files.ts` writes them; test/docs/deploy.test.ts fails when they are out of date.

const folder = join(import.meta.dirname, '../deploy')

const of = (name: MeasureName): string => measures[name].name
/** A metric of the whole store: every process shows the same, so the highest is taken. */
const ofStore = (name: MeasureName, labels = ''): string => `max(${of(name)}${labels})`
const increase = (name: MeasureName, labels: string, range: string): string =>
  `sum(increase(${of(name)}${labels}[${range}]))`

/** Each figure as an expression. Labels of the result name the subject. */
const expressions: Readonly<Record<FigureName, string>> = {
  waiting: `sum(max by (class) (${of('waiting')}))`,
  endpoint_waiting: `max by (application, endpoint) (${of('endpointWaiting')})`,
  saturation: `sum(${of('slotWaits')})`,
  wait_p95: `histogram_quantile(0.95, sum by (le) (rate(${of('slotDelay')}_bucket[5m])))`,
  failures: `${increase('attempts', '{outcome!~"delivered|aborted"}', '5m')} / clamp_min(${increase('deliveriesEnded', '{end="delivered"}', '5m')}, 1) and ${increase('attempts', '{outcome!~"delivered|aborted"}', '5m')} >= ${leastFailures}`,
  behind: ofStore('behind'),
  circuit_open: ofStore('circuits', '{state="open"}'),
  // A process that started a moment ago has no series of ten minutes ago.
  dead_letters: `${increase('deadLetters', '', '10m')} and ${increase('deadLetters', '', '10m')} >= 2 * (sum(increase(${of('deadLetters')}[10m] offset 10m)) or vector(0))`,
  worker_died: ofStore('workers', '{state="dead"}'),
  schedule_late: ofStore('scheduleLag'),
  disk_free: `min(${of('diskFree')})`,
  wal_size: ofStore('walSize'),
}

/** The rule file of Prometheus. JSON texts are YAML texts, so that nothing needs other quotes. */
export function prometheusRules(): string {
  const lines = [
    '# Made by scripts/deploy-files.ts from the tables of alert rules and metrics. Do not edit.',
    'groups:',
    '  - name: sluice',
    '    rules:',
  ]
  for (const rule of defaultRules) lines.push(...prometheusRule(rule))
  return `${lines.join('\n')}\n`
}

function prometheusRule({ name, figure, severity, side, threshold, holdMs, clearMs }: AlertRule): string[] {
  const { meaning } = (figures as Readonly<Record<string, Figure>>)[figure] as Figure
  const expression = expressions[figure as FigureName]
  // `and` binds less than a comparison: the threshold belongs to the first part.
  const [first = '', ...conditions] = expression.split(' and ')
  const whole = [`${first} ${side === 'above' ? '>' : '<'} ${threshold}`, ...conditions].join(' and ')
  const title = name.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())
  return [
    `      - alert: Sluice${title}`,
    `        expr: ${JSON.stringify(whole)}`,
    `        for: ${holdMs / 1000}s`,
    `        keep_firing_for: ${clearMs / 1000}s`,
    '        labels:',
    `          severity: ${severity}`,
    '        annotations:',
    `          summary: ${JSON.stringify(`Sluice: ${meaning}: {{ $value | humanize }}`)}`,
    '          runbook: "sluice doctor"',
  ]
}

interface Panel {
  readonly title: string
  readonly unit: string
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[]
}

const units: Readonly<Record<Figure['unit'], string>> = {
  deliveries: 'short',
  endpoints: 'short',
  share: 'percentunit',
  ratio: 'percentunit',
  seconds: 's',
  letters: 'short',
  workers: 'short',
  bytes: 'bytes',
  circuits: 'short',
}

/** A panel for each figure that rules judge, with its threshold, and one for each metric beside them. */
function panels(): Panel[] {
  const rates = ([name, measure]: [string, Measure]): Panel[] => {
    const { kind, scope, help } = measure
    if (scope === 'endpoint') return []
    const by = Object.keys(measure.labels)
    const grouped = by.length === 0 ? '' : ` by (${by.join(', ')})`
    const legendFormat = by.map((label) => `{{${label}}}`).join(' ') || name
    const unit = measure.name.includes('_seconds') ? 's' : measure.name.endsWith('_bytes') ? 'bytes' : 'short'
    if (kind === 'counter') {
      return [
        { title: help, unit: 'cps', targets: [{ expr: `sum${grouped} (rate(${measure.name}[5m]))`, legendFormat }] },
      ]
    }
    if (kind === 'histogram') {
      const quantile = (share: number) => ({
        expr: `histogram_quantile(${share}, sum by (le) (rate(${measure.name}_bucket[5m])))`,
        legendFormat: `p${share * 100}`,
      })
      return [{ title: help, unit: 's', targets: [0.5, 0.95, 0.99].map(quantile) }]
    }
    const expr = `${scope === 'store' ? 'max' : 'sum'}${grouped} (${measure.name})`
    return [{ title: help, unit, targets: [{ expr, legendFormat }] }]
  }
  return [
    ...defaultRules.map(({ name, figure }) => {
      const { meaning, unit } = (figures as Readonly<Record<string, Figure>>)[figure] as Figure
      const [expr = ''] = expressions[figure as FigureName].split(' and ')
      const legendFormat = figure === 'endpoint_waiting' ? '{{endpoint}} of {{application}}' : name
      return { title: `Alert ${name}: ${meaning}`, unit: units[unit], targets: [{ expr, legendFormat }] }
    }),
    ...Object.entries<Measure>(measures).flatMap(rates),
  ]
}

/** The dashboard for Grafana. Its data source is chosen when it is imported. */
export function grafanaDashboard(): string {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana puts its variable in.
  const datasource = { type: 'prometheus', uid: '${datasource}' }
  const thresholds = new Map(defaultRules.map(({ name, threshold, side }) => [name, { threshold, side }]))
  const dashboard = {
    uid: 'sluice',
    title: 'Sluice',
    tags: ['sluice'],
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' }] },
    panels: panels().map(({ title, unit, targets }, i) => {
      const limit = thresholds.get(/^Alert (\w+):/.exec(title)?.[1] ?? '')
      return {
        id: i + 1,
        type: 'timeseries',
        title,
        datasource,
        gridPos: { x: (i % 3) * 8, y: Math.floor(i / 3) * 8, w: 8, h: 8 },
        fieldConfig: {
          defaults: {
            unit,
            min: 0,
            custom: { fillOpacity: 10, thresholdsStyle: { mode: limit === undefined ? 'off' : 'line' } },
            thresholds: { mode: 'absolute', steps: stepsOf(limit) },
          },
          overrides: [],
        },
        targets: targets.map((target, place) => ({ ...target, datasource, refId: String.fromCharCode(65 + place) })),
      }
    }),
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}

function stepsOf(limit: { readonly threshold: number; readonly side: AlertRule['side'] } | undefined) {
  if (limit === undefined) return [{ color: 'green', value: null }]
  const [low, high] = limit.side === 'above' ? ['green', 'red'] : ['red', 'green']
  return [
    { color: low, value: null },
    { color: high, value: limit.threshold },
  ]
}

export const deployFiles: Readonly<Record<string, () => string>> = {
  'prometheus-rules.yaml': prometheusRules,
  'grafana-dashboard.json': grafanaDashboard,
  // Helm reads only files inside the chart.
  'helm/sluice/files/prometheus-rules.yaml': prometheusRules,
  'helm/sluice/files/grafana-dashboard.json': grafanaDashboard,
  'helm/sluice/values.schema.json': helmValuesSchema,
}

if (import.meta.main) {
  mkdirSync(folder, { recursive: true })
  for (const [name, make] of Object.entries(deployFiles)) writeFileSync(join(folder, name), make())
}
