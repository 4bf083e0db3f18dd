import type { Clock } from '../../src/domain/clock.ts'
import type { EngineDeps } from '../../src/engine/engine.ts'
import type { ServerDefaults } from '../../src/features/endpoints/rules.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import type { OpenTarget, Sender } from '../../src/sender/send.ts'

const second = 1000

/** A server without default limits. */
export const serverDefaults: ServerDefaults = {
  timeoutMs: second,
  connectTimeoutMs: second,
  rate: null,
  periodMs: second,
  burst: null,
}

/** All that an engine needs beside its store and its sender; limits that no test here reaches. */
export function engineParts(clock: Clock): Omit<EngineDeps, 'store' | 'sender'> {
  return {
    clock,
    random: systemRandom,
    randomText: systemRandomText,
    limits: { inFlight: 64, inFlightPerApp: 64 },
    health: { circuit: undefined, disableAfterMs: 0 },
    leaseMs: 10 * second,
    serverDefaults,
    waitingLimit: 1_000_000,
    description: 'a worker under test',
    onTrouble(error) {
      throw error
    },
  }
}

/** A sender all of whose lines send this way. */
export function sendingBy(
  send: (target: Parameters<Sender['open']>[0], ...args: Parameters<OpenTarget['send']>) => () => void,
): Sender {
  return {
    open: (target) => ({ send: (...args) => send(target, ...args) }),
    close: async () => {},
  }
}
