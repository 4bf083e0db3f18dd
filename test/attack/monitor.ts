/**
 * Runs inside the attacked process (`node --import`) and measures its event loop and memory. During an attack
 * a timer fires every 5 ms; the CPU time that the thread used between two firings is how long one turn held the loop. CPU
 * time and not wall time, so that a machine that is busy with something else does not count as an attack. Blocking reads
 * show in the wall time.
 */
const everyMs = 5
/** Reading the memory takes 0.1 ms, so that not every firing does. */
const firingsPerReading = 4

let timer: NodeJS.Timeout | undefined
let firings = 0
let cpuStallMs = 0
let wallStallMs = 0
let peakBytes = 0
let cpu = process.threadCpuUsage()
let wall = performance.now()

function begin(): void {
  // Garbage that an earlier attack on a shared server left would be room for this one.
  globalThis.gc?.()
  cpu = process.threadCpuUsage()
  wall = performance.now()
  cpuStallMs = 0
  wallStallMs = 0
  peakBytes = 0
  timer ??= setInterval(look, everyMs).unref()
}

function look(): void {
  const used = process.threadCpuUsage(cpu)
  const now = performance.now()
  cpuStallMs = Math.max(cpuStallMs, (used.user + used.system) / 1000)
  wallStallMs = Math.max(wallStallMs, now - wall - everyMs)
  if (++firings % firingsPerReading === 0) peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
  cpu = process.threadCpuUsage()
  wall = now
}

function end(): void {
  look()
  clearInterval(timer)
  timer = undefined
}

process.on('message', (question) => {
  if (question === 'begin') begin()
  else end()
  const rssBytes = process.memoryUsage.rss()
  peakBytes = Math.max(peakBytes, rssBytes)
  process.send?.({ cpuStallMs, wallStallMs, peakBytes, rssBytes })
})
process.channel?.unref()

export {}
