import { type Measure, type MeasureName, measures } from './measures.ts'

/** A value of a metric, as it is written. */
export interface Sample {
  readonly labels?: Readonly<Record<string, string | number>>
  readonly value: number
  /** The name of the line, where it is not that of the metric. */
  readonly metricName?: string
}

/** The samples of every metric that a process has. */
export type Samples = Readonly<Partial<Record<MeasureName, readonly Sample[]>>>

/** The figures of one process and of its siblings, as those of one. Metrics of the whole store are those of the process. */
export function combined(own: Samples, siblings: readonly Samples[], ended: Samples | undefined): Samples {
  const all: Partial<Record<MeasureName, readonly Sample[]>> = {}
  for (const [name, measure] of Object.entries(measures) as [MeasureName, Measure][]) {
    const lasting = ended === undefined ? [] : [ended]
    const others = measure.together === 'own' ? [] : isCount(measure) ? [...siblings, ...lasting] : siblings
    all[name] = others.reduce(
      (sum: readonly Sample[], other) => merged(sum, other[name] ?? [], measure),
      own[name] ?? [],
    )
  }
  return all
}

/** The counts of processes that have ended, which the sums of all go on to have. */
export function withEnded(ended: Samples | undefined, last: Samples): Samples {
  const counts: Partial<Record<MeasureName, readonly Sample[]>> = {}
  for (const [name, measure] of Object.entries(measures) as [MeasureName, Measure][]) {
    if (isCount(measure)) counts[name] = merged(ended?.[name] ?? [], last[name] ?? [], measure)
  }
  return counts
}

/** Whether the values of a metric only grow, so that those of a process that has ended still count. */
function isCount({ kind }: Measure): boolean {
  return kind !== 'gauge'
}

const ways = {
  sum: (a: number, b: number) => a + b,
  most: Math.max,
  least: Math.min,
} as const

function merged(some: readonly Sample[], others: readonly Sample[], { together }: Measure): readonly Sample[] {
  if (together === 'own') return some
  const byLine = new Map(some.map((sample) => [lineOf(sample), sample]))
  for (const other of others) {
    const line = lineOf(other)
    const known = byLine.get(line)
    byLine.set(line, known === undefined ? other : { ...known, value: ways[together](known.value, other.value) })
  }
  return [...byLine.values()]
}

function lineOf({ metricName = '', labels = {} }: Sample): string {
  return JSON.stringify([metricName, ...Object.entries(labels)])
}
