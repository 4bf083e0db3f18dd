import type { OnceStore } from './once.ts'

export interface RedisOptions {
  /** The beginning of the keys; `sluice:handled:` by default. */
  readonly prefix?: string | undefined
}

/**
 * Sends one command to Redis, such as `['get', 'key']`. With node-redis `(args) => client.sendCommand(args)`, with ioredis
 * `([name, ...args]) => client.call(name, ...args)`, with Bun `([name, ...args]) => client.send(name, args)`.
 */
export type RedisCommand = (args: [command: string, ...values: string[]]) => Promise<unknown>

const handled = 'handled'

/** Answers 0 for a claimed key, -1 for a handled one, else the milliseconds until the other lease ends. */
const claimScript = `
local value = redis.call('get', KEYS[1])
if value == '${handled}' then return -1 end
if value then return math.max(redis.call('pttl', KEYS[1]), 1) end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0`
const releaseScript = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

/** A store in Redis, one key per message. A Redis that evicts keys or loses them in a crash forgets what was handled. */
export function redisStore(command: RedisCommand, { prefix = 'sluice:handled:' }: RedisOptions = {}): OnceStore {
  return {
    async claim(id, token, leaseMs) {
      const answer = Number(await command(['EVAL', claimScript, '1', `${prefix}${id}`, token, String(leaseMs)]))
      if (answer === 0) return 'claimed'
      return answer < 0 ? 'handled' : { busyMs: answer }
    },
    async complete(id, keepMs) {
      await command(['SET', `${prefix}${id}`, handled, 'PX', String(keepMs)])
    },
    async release(id, token) {
      await command(['EVAL', releaseScript, '1', `${prefix}${id}`, token])
    },
  }
}
