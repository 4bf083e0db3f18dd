import { useMemo } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { Sparkline } from '../parts/chart.tsx'
import { exact } from '../parts/text.ts'

/** The endpoints of one request. */
const most = 100

/** The deliveries of each listed endpoint over the last day, as small lines. */
export function useSparklines(rows: readonly { readonly id: string }[]) {
  // Sorted, so that another order of the same rows asks for nothing new.
  const ids = useMemo(
    () =>
      rows
        .slice(0, most)
        .map(({ id }) => id)
        .sort(),
    [rows],
  )
  const lines = useAsk(
    'GET /history/sparkline',
    ids.length === 0 ? null : { query: { endpoint: ids, range: '24h' } },
    60_000,
  )
  return useMemo(() => {
    const byId = new Map(lines.data?.data.map((line) => [line.endpointId, line]))
    return {
      cell({ id }: { readonly id: string }) {
        const line = byId.get(id)
        if (line === undefined) return null
        const [delivered, failed] = [sum(line.delivered), sum(line.failed)]
        if (delivered + failed === 0) return <span class="faint">–</span>
        const values = line.delivered.map((count, i) => count + (line.failed[i] ?? 0))
        const tone = failed > delivered ? 'bad' : failed > delivered / 20 ? 'wait' : 'good'
        const label = `${exact(delivered)} delivered, ${exact(failed)} failed attempts in the last day`
        return <Sparkline values={values} tone={tone} label={label} />
      },
    }
  }, [lines.data])
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
