import { writeFileSync } from 'node:fs'
import { drawnWait, drawsOf, type Jitter, type RetryPolicy, waitAfter } from '../src/domain/retry.ts'

/** Draws docs/jitter.svg, the picture of docs/retry.md, with the program's own waits: `node scripts/jitter-plot.ts`. */
export const plotPath = new URL('../docs/jitter.svg', import.meta.url)

const waits = { kind: 'exponential', baseMs: 5000, factor: 2, capMs: 60_000, maxAttempts: 8 } as const
const order: readonly Jitter[] = ['none', 'equal', 'full', 'decorrelated']
const [deliveries, attempts] = [100, waits.maxAttempts - 1]
const [width, rowHeight, left, top] = [720, 92, 118, 44]
const [plotWidth, stripHeight, axisMs] = [width - left - 22, 9, 70_000]

export function jitterPlot(): string {
  const bottom = top + order.length * rowHeight
  const ticks = [0, 10, 20, 30, 40, 50, 60].map(
    (
      s,
    ) => `<line x1="${x(s * 1000)}" y1="${top - 6}" x2="${x(s * 1000)}" y2="${bottom - 14}" class="${s === 60 ? 'cap' : 'grid'}"/>
<text x="${x(s * 1000)}" y="${bottom + 4}" text-anchor="middle">${s} s</text>`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + 18}" role="img" aria-label="Random waits of four kinds of jitter">
<style>
text{font:12px system-ui,sans-serif;fill:#57606a}.name{font-weight:600;fill:#1f2328}.small{font-size:10px}
.grid{stroke:#d0d7de}.cap{stroke:#cf222e;stroke-dasharray:4 3}.capText{fill:#cf222e}.dot{stroke:#0969da;stroke-opacity:.55;stroke-width:2}.wait{stroke:#1f2328;stroke-width:1.5}
@media (prefers-color-scheme:dark){text{fill:#9198a1}.name{fill:#f0f6fc}.grid{stroke:#3d444d}.cap{stroke:#f85149}.capText{fill:#f85149}.dot{stroke:#4493f8;stroke-opacity:.9}.wait{stroke:#f0f6fc}}
</style>
<text x="12" y="18">${deliveries} deliveries, exponential from 5 s, capMs 60 s. Row n: the wait after attempt n. Dot: a random wait. Bar: w.</text>
<text x="${x(60_000)}" y="${top - 10}" text-anchor="middle" class="capText">capMs</text>
${ticks.join('\n')}
${order.map((jitter, i) => row(jitter, top + i * rowHeight)).join('\n')}
</svg>
`
}

/** One kind of jitter: a strip of dots for the wait after each attempt. */
function row(jitter: Jitter, y: number): string {
  const policy: RetryPolicy = { waits, jitter, maxAgeMs: Number.POSITIVE_INFINITY }
  const strips = Array.from({ length: attempts }, (_, i) => {
    const stripY = y + i * (stripHeight + 1.5)
    const bar = x(waitAfter(policy, i + 1) as number)
    const marks =
      jitter === 'decorrelated'
        ? ''
        : `<line x1="${bar}" y1="${stripY}" x2="${bar}" y2="${stripY + stripHeight}" class="wait"/>`
    return `<text x="${left - 8}" y="${stripY + 8}" text-anchor="end" class="small">${i + 1}</text>${dots(policy, i + 1, stripY)}${marks}`
  })
  return `<text x="12" y="${y + 8}" class="name">${jitter}</text>\n${strips.join('\n')}`
}

/** All dots of a strip as one path, at heights that are only there to keep them apart. */
function dots(policy: RetryPolicy, n: number, y: number): string {
  const marks = Array.from({ length: deliveries }, (_, message) => {
    const waitMs = drawnWait(policy, n, drawsOf(message, 1)) as number
    return `M${x(waitMs)} ${Math.round(y + 1 + ((message * 0.618) % 1) * (stripHeight - 2))}h2`
  })
  return `<path class="dot" d="${[...new Set(marks)].join('')}"/>`
}

function x(ms: number): string {
  return (left + (ms / axisMs) * plotWidth).toFixed(1)
}

if (import.meta.main) writeFileSync(plotPath, jitterPlot())
