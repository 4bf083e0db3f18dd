import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { theme } from './theme.ts'

export interface Series {
  readonly name: string
  /** A colour of the design, such as `--good`. */
  readonly colour: string
  readonly values: readonly (number | null)[]
  /** Filled below the line. */
  readonly area?: boolean
  readonly dashed?: boolean
}

interface ChartProps {
  readonly title: string
  /** Seconds since 1970, ascending. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number | null | undefined) => string
  /** Distances between lines of the grid that read well, where they are no powers of ten. */
  readonly steps?: readonly number[]
  readonly height?: number
}

/** Loaded with the first chart: it is a third of all code, and throws where the browser's own language is no valid one. */
let library: Promise<typeof uPlot | undefined> | undefined

function loadLibrary(): Promise<typeof uPlot | undefined> {
  library ??= import('uplot').then(
    ({ default: loaded }) => loaded,
    () => undefined,
  )
  return library
}

/** Lines over time. The legend shows the values under the pointer, else the latest ones. */
export function Chart({ title, times, series, format, steps, height = 168 }: ChartProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const [at, setAt] = useState<number | null>(null)
  const shape = JSON.stringify(series.map(({ name, colour }) => [name, colour]))

  const [Plot, setPlot] = useState<{ readonly make: typeof uPlot }>()
  useEffect(() => void loadLibrary().then((make) => make && setPlot({ make })), [])

  useEffect(() => {
    const element = place.current
    if (element === null || Plot === undefined) return
    const joined = Plot.make.sync('charts')
    const style = getComputedStyle(element)
    const colour = (name: string) => style.getPropertyValue(name).trim() || name
    const font = `11px ${style.fontFamily}`
    const axis = { stroke: colour('--text-3'), font, ticks: { show: false }, gap: 6 }
    const grid = { stroke: colour('--line'), width: 1 }
    const made = new Plot.make(
      {
        width: element.clientWidth,
        height,
        // The last label of time is wider than the end of the axis.
        padding: [8, 20, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          sync: { key: joined.key },
          points: { size: 7 },
          drag: { x: false, y: false },
        },
        scales: { y: { range: (_self, _min, max) => [0, max > 0 ? max * 1.12 : 1] } },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 28,
            space: 72,
            values: (_self, ticks) => ticks.map((tick) => timeLabel(tick, ticks)),
          },
          {
            ...axis,
            grid,
            size: 52,
            ...(steps && { incrs: [...steps] }),
            space: 36,
            values: (_self, ticks) => ticks.map((tick) => format(tick)),
          },
        ],
        series: [
          {},
          ...series.map((each) => ({
            label: each.name,
            stroke: colour(each.colour),
            width: 1.5,
            points: { show: false, size: 4, fill: colour(each.colour), filter: alonePoints },
            ...(each.dashed && { dash: [4, 3] }),
            ...(each.area && { fill: `color-mix(in srgb, ${colour(each.colour)} 12%, transparent)` }),
          })),
        ],
        hooks: { setCursor: [(self) => setAt(self.cursor.idx ?? null)] },
      },
      dataOf(times, series),
      element,
    )
    plot.current = made
    joined.sub(made)
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      joined.unsub(made)
      made.destroy()
    }
  }, [Plot, shape, height, theme.value])

  useEffect(() => plot.current?.setData(dataOf(times, series)), [times, series])

  const shown = at ?? times.length - 1
  return (
    <figure class="chart">
      <figcaption>
        <span class="title">{title}</span>
        <span class="legend">
          {series.map(({ name, colour, values }) => (
            <span key={name}>
              <i style={{ background: `var(${colour})` }} />
              {name} <b>{format(values[shown])}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${title} over time`} style={{ height: `${height}px` }} />
    </figure>
  )
}

/** The points that no line shows, because both neighbours are missing. */
function alonePoints(plot: uPlot, index: number): number[] {
  const values = plot.data[index] ?? []
  return [...values.keys()].filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null)
}

function dataOf(times: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  return [times, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData
}

/** A time as short as the ticks allow: the date only where the range is longer than a day. */
function timeLabel(tick: number, ticks: readonly number[]): string {
  const date = new Date(tick * 1000)
  const range = (ticks.at(-1) ?? tick) - (ticks[0] ?? tick)
  const hours = `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`
  if (range > 86_400) return `${date.getDate()} ${date.toLocaleString('en', { month: 'short' })}`
  return range < 120 ? `${hours}:${String(date.getSeconds()).padStart(2, '0')}` : hours
}

/** A small line without axes. */
export function Sparkline({
  values,
  tone = 'quiet',
  label,
}: {
  values: readonly (number | null)[]
  tone?: string
  label: string
}) {
  const width = 96
  const height = 24
  const highest = Math.max(1e-9, ...values.map((value) => value ?? 0))
  const points = values.map((value, i) => {
    const x = values.length < 2 ? 0 : (i / (values.length - 1)) * width
    return `${x.toFixed(1)},${(height - 2 - ((value ?? 0) / highest) * (height - 4)).toFixed(1)}`
  })
  return (
    <svg
      class="spark"
      data-tone={tone}
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      role="img"
      aria-label={label}
    >
      {points.length > 1 && <polyline points={points.join(' ')} />}
    </svg>
  )
}
