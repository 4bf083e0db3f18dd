import { openLog } from '../../src/runtime/log.ts'

/** A process that logs as many lines as its parent asks for, and answers how long its event loop was held. */
const log = openLog({ logLevel: 'info', logFormat: null })
process.on('message', (lines: number) => {
  if (lines === 0) {
    process.stdout.write('printed\n')
    log.fatal('the last line')
    process.exit(70)
  }
  const began = performance.now()
  for (let i = 0; i < lines; i++) log.info({ i, padding: 'x'.repeat(1000) }, 'a line')
  process.send?.(performance.now() - began)
})
