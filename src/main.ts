#!/usr/bin/env -S node --max-semi-space-size=16 --heap-growing-percent=150
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import packageFile from '../package.json' with { type: 'json' }
import { CommandError, exitCode } from './cli/outcome.ts'
import { runProgram } from './cli/program.ts'
import type { World } from './cli/world.ts'
import { Engine } from './engine/engine.ts'
import { buildApp } from './http/app.ts'
import { Publisher } from './intake/publisher.ts'
import { Scanner } from './intake/scan.ts'
import { systemClock } from './runtime/clock.ts'
import { type Logger, openLog } from './runtime/log.ts'
import { permittedNetworks } from './runtime/networks.ts'
import { commandLine, exitOnBugs, exitWith, systemTerminal } from './runtime/process.ts'
import { systemRandom, systemRandomBytes, systemRandomText } from './runtime/random.ts'
import type { Config } from './runtime/settings.ts'
import { AddressPolicy } from './sender/guard.ts'
import { openSender } from './sender/open.ts'
import { checkUrl } from './sender/url.ts'
import { FileOwnedError } from './store/sqlite/file-lock.ts'
import type { Store, StoreContext } from './store/store.ts'

/** The composition root: the only file that knows every part. Which store stands behind a URL is decided here alone. */
const world: World = {
  version: packageFile.version,
  clock: systemClock,
  randomText: systemRandomText,
  terminal: systemTerminal,

  openLog(config) {
    const log = openLog(config.logLevel)
    exitOnBugs(log)
    return log
  },

  async openStore(config, log) {
    try {
      return await openStore(config, log)
    } catch (error) {
      const code = error instanceof FileOwnedError ? exitCode.owned : exitCode.failed
      throw new CommandError(`Cannot open the store: ${(error as Error).message}.`, code, { cause: error })
    }
  },

  async newestSchema(config) {
    const { knownMigrations } =
      config.store.kind === 'sqlite'
        ? await import('./store/sqlite/migrate.ts')
        : await import('./store/postgres/migrate.ts')
    return knownMigrations().at(-1) ?? { version: 0, name: 'empty' }
  },

  openApi(config, store, log) {
    const policy = new AddressPolicy({ allowNetworks: permittedNetworks(config), allowHttp: config.allowHttp })
    return buildApp({
      store,
      publisher: new Publisher({ store, clock: systemClock }),
      scanner: new Scanner(systemRandomBytes(4).reduce((seed, byte) => (seed << 8) | byte, 0)),
      clock: systemClock,
      randomBytes: systemRandomBytes,
      checkUrl: (url) => checkUrl(url, policy),
      apiKey: config.apiKey,
      bodyLimitBytes: config.bodyLimit,
      requestTimeoutMs: config.requestTimeout,
      onBug: (error) => log.error({ err: error }, 'a bug: a request failed for no fault of its own'),
    })
  },

  async startDelivering(config, store, log, description) {
    const sender = openSender({
      clock: systemClock,
      version: packageFile.version,
      allowNetworks: permittedNetworks(config),
      allowHttp: config.allowHttp,
      responseLimitBytes: config.responseLimit,
      retryAfterCapMs: config.retryAfterCap,
    })
    const engine = new Engine({
      store,
      sender,
      clock: systemClock,
      random: systemRandom,
      randomText: systemRandomText,
      limits: { inFlight: config.inFlight, inFlightPerApp: config.inFlightPerApp },
      leaseMs: config.lease,
      defaultTimeoutMs: config.timeout,
      description,
      log: (sentence) => log.info(sentence),
      onTrouble: (error) => log.warn({ err: error }, 'trouble while delivering; trying again'),
    })
    await engine.start()
    return {
      async stop(limitMs) {
        await engine.stop(limitMs)
        await sender.close()
      },
    }
  },
}

async function openStore({ store }: Config, log: Logger): Promise<Store> {
  const context: StoreContext = {
    clock: systemClock,
    random: systemRandom,
    randomText: systemRandomText,
    log: (sentence) => log.warn(sentence),
  }
  if (store.kind === 'sqlite') {
    const { openSqliteStore } = await import('./store/sqlite/open.ts')
    if (store.path !== ':memory:') mkdirSync(dirname(store.path), { recursive: true })
    return openSqliteStore(context, { path: store.path, role: 'owner' })
  }
  const { openPostgresStore } = await import('./store/postgres/open.ts')
  return openPostgresStore(context, { url: store.url })
}

await exitWith(runProgram(world, commandLine()))
