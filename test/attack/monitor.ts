/**
 * Runs inside the attacked process (`node --import`) and measures its event loop and memory. A timer fires every 5 ms;
 * the CPU time that the thread used between two firings is how long one turn held the loop. CPU time and not wall time,
 * so that a machine that is busy with something else does not count as an attack. Blocking reads show in the wall time.
 */
const everyMs = 5

let cpuStallMs = 0
let wallStallMs = 0
let peakBytes = 0
let cpu = process.threadCpuUsage()
let wall = performance.now()

setInterval(() => {
  const used = process.threadCpuUsage(cpu)
  const now = performance.now()
  cpuStallMs = Math.max(cpuStallMs, (used.user + used.system) / 1000)
  wallStallMs = Math.max(wallStallMs, now - wall - everyMs)
  peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
  cpu = process.threadCpuUsage()
  wall = now
}, everyMs).unref()

process.on('message', (question) => {
  if (question === 'begin') {
    cpuStallMs = 0
    wallStallMs = 0
    peakBytes = process.memoryUsage.rss()
  }
  process.send?.({ cpuStallMs, wallStallMs, peakBytes, rssBytes: process.memoryUsage.rss() })
})
process.channel?.unref()

export {}
