import type { Clock } from '../domain/clock.ts'
import type { Timings } from '../domain/outcome.ts'
import type { AttemptWatch, EndedAttempt, StartedAttempt } from '../engine/pump.ts'
import type { LoggedAttempts, Logger } from '../runtime/log.ts'

/**
 * Logs one line per attempt. A line has ids, names, numbers and codes only: no payload, secret, URL or header. All of them
 * have a limit, so that a line has one, too.
 */
export function logAttempts(which: LoggedAttempts, log: Pick<Logger, 'info'>, clock: Clock): AttemptWatch | undefined {
  if (which === 'none') return undefined
  return {
    begin: (started) => ({
      end(ended) {
        if (which === 'failed' && ended.outcome.code === 'delivered') return
        log.info(fieldsOf(started, ended, clock), sentenceOf(started, ended))
      },
    }),
  }
}

function sentenceOf({ number }: StartedAttempt, { outcome }: EndedAttempt): string {
  const { code, status, durationMs } = outcome
  const answer = status === 0 ? code : `${code} ${status}`
  return `attempt ${number}: ${answer} in ${Math.round(durationMs)} ms`
}

function fieldsOf({ endpoint, message, number, waitMs }: StartedAttempt, ended: EndedAttempt, clock: Clock): object {
  const { id, outcome, verdict } = ended
  const { code, status, durationMs, timings, response } = outcome
  const nextInMs = verdict !== null && 'waitMs' in verdict ? verdict.waitMs : undefined
  return {
    app: endpoint.appId,
    endpoint: endpoint.id,
    message: message.id,
    eventType: message.eventType,
    attempt: number,
    // Absent for an attempt that the worker gave up: it is not recorded.
    ...(id !== null && { id }),
    code,
    status,
    ...(waitMs !== null && { waitMs: Math.round(waitMs) }),
    durationMs: Math.round(durationMs),
    ...(timings && partsOf(timings)),
    requestBytes: message.bytes,
    responseBytes: response?.byteLength ?? 0,
    ...(verdict !== null && { state: verdict.state }),
    ...(verdict?.state === 'dead' && { reason: verdict.reason }),
    ...(nextInMs !== undefined && { next: new Date(clock.now() + Math.ceil(nextInMs)).toISOString() }),
    ...(message.trace !== null && { traceId: message.trace.slice(3, 35) }),
  }
}

/** The parts that took place, in whole milliseconds. */
function partsOf({ reused, dnsMs, connectMs, tlsMs, firstByteMs }: Timings): object {
  const parts = Object.entries({ dnsMs, connectMs, tlsMs, firstByteMs })
  const known = parts.flatMap(([name, ms]) => (ms === null ? [] : [[name, Math.round(ms)]]))
  return { reused, ...Object.fromEntries(known) }
}
