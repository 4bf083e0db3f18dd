import { bytesText, count, percent, span, withCommas } from '../../domain/phrases.ts'
import type { SlotWaits } from '../../domain/snapshot.ts'
import { psql } from '../../domain/store-traits.ts'
import type { Rule, SystemFacts, SystemRule, WorkerFacts } from './facts.ts'

/** The rules of the doctor that alerts watch, too: they need the facts about the system alone. */
export const watchedRules = {
  disk_filling: {
    code: 'disk_filling',
    criticalWhen: 'less than 128 MiB are free',
    meaning: 'Less than 1 GiB is free on the file system of the SQLite file.',
    remedy: 'Make room, or shorten `retention`. A full disk makes Sluice refuse publishes; it loses nothing.',
    find: ({ store: { disk } }, { diskBytes }) => {
      if (disk === null || disk.freeBytes >= diskBytes) return undefined
      const { path, freeBytes, totalBytes } = disk
      return {
        severity: freeBytes < diskBytes / 8 ? 'critical' : 'warning',
        sentence: `The file system of ${path} has ${bytesText(freeBytes)} of ${bytesText(totalBytes)} left.`,
        evidence: { path, freeBytes, totalBytes },
        command: `df -h ${quoted(path)}`,
      }
    },
  },
  wal_filling: {
    code: 'wal_filling',
    criticalWhen: 'the log is larger than 1 GiB',
    meaning: 'The write-ahead log of SQLite is larger than 128 MiB: a reader keeps it from being emptied.',
    remedy: 'End the process that keeps a read transaction open, such as a shell or a backup.',
    find: ({ store: { logBytes, disk } }, limits) => {
      if (logBytes === null || disk === null || logBytes < limits.logBytes) return undefined
      return {
        severity: logBytes >= 8 * limits.logBytes ? 'critical' : 'warning',
        sentence: `The write-ahead log has grown to ${bytesText(logBytes)}, because another process keeps a read transaction open.`,
        evidence: { logBytes, freeBytes: disk.freeBytes },
        command: `fuser -v ${quoted(`${disk.path}-wal`)}`,
      }
    },
  },
  worker_died: {
    code: 'worker_died',
    meaning: 'A worker died in the last 15 minutes: it was gone without having left.',
    remedy: 'Read the end of its log. Other workers took its lanes over; raise `lease` if it only stood still.',
    find: ({ workers }, { diedMs }) => {
      const died = workers.filter(({ state, endedAgoMs }) => state === 'dead' && (endedAgoMs ?? diedMs) < diedMs)
      const [last] = died.toSorted((a, b) => (a.endedAgoMs ?? 0) - (b.endedAgoMs ?? 0))
      if (last === undefined) return undefined
      const others = died.length === 1 ? '' : ` ${count(died.length, 'worker')} died in the last ${span(diedMs)}.`
      return {
        sentence: `Worker ${last.id} (${last.name}) died ${span(last.endedAgoMs ?? 0)} ago, without having left.${others}`,
        evidence: { died: died.length, worker: last.id, endedAgoMs: last.endedAgoMs ?? 0 },
        command: 'sluice workers --all',
      }
    },
  },
  dead_letters_growing: {
    code: 'dead_letters_growing',
    meaning:
      'At least ten deliveries became dead letters in the last ten minutes, and twice as many as in the ten minutes before.',
    remedy: 'Read the reasons, fix the receiver, and replay the dead letters.',
    find: ({ dead }, { deadLetters }) => {
      const { recent, before, windowMs, worst } = dead
      if (recent < deadLetters || recent < 2 * before) return undefined
      const most = worst === null ? '' : ` Most of the latest are of ${worst.endpoint} of ${worst.app}.`
      return {
        sentence: `${count(recent, 'delivery', 'deliveries')} became dead letters in the last ${span(windowMs)}, and ${withCommas(before)} in the ${span(windowMs)} before.${most}`,
        evidence: { recent, before, windowMs, worstShare: worst?.share ?? null },
        command: worst === null ? 'sluice dead list' : `sluice dead list ${worst.app} --endpoint ${worst.endpoint}`,
        app: worst?.app ?? null,
        endpoint: worst?.endpoint ?? null,
      }
    },
  },
  schedule_late: {
    code: 'schedule_late',
    meaning: 'A schedule is more than a minute late.',
    remedy: 'Look at its last runs for an error, and at the leader, which runs schedules.',
    find: ({ lateSchedules, hasLeader }, { scheduleMs }) => {
      // Without a leader all are late, and that is a finding of its own.
      const late = hasLeader ? lateSchedules.filter(({ lateMs }) => lateMs >= scheduleMs) : []
      const [worst] = late
      if (worst === undefined) return undefined
      const others = late.length === 1 ? '' : ` ${count(late.length, 'schedule')} are late.`
      const failed = worst.failures === 0 ? '' : ` ${count(worst.failures, 'run')} failed in a row.`
      return {
        sentence: `The schedule ${worst.schedule} of ${worst.app} is ${span(worst.lateMs)} late.${failed}${others}`,
        evidence: { lateMs: worst.lateMs, late: late.length, failures: worst.failures },
        command: `sluice schedule show ${worst.app} ${worst.schedule}`,
        app: worst.app,
      }
    },
  },
} as const satisfies Readonly<Record<string, SystemRule>>

/** The rules about the store and the processes, the most fundamental first. */
export const systemRules: readonly Rule[] = [
  {
    code: 'store_slow',
    meaning: 'A durable write takes half a second or more.',
    remedy: 'Look for other programs on the same disk or database server, and for a held lock.',
    find: ({ store, traits }, { slowCommitMs }, known) => {
      const { commitMs } = store
      if (commitMs < slowCommitMs) return undefined
      known.allExplained = true
      return {
        sentence: `A durable write took ${span(commitMs)}; a healthy store takes a few milliseconds. Publishes and deliveries wait for it.`,
        evidence: { commitMs: Math.round(commitMs) },
        command: traits.busyCommand,
      }
    },
  },
  watchedRules.disk_filling,
  watchedRules.wal_filling,
  {
    code: 'network_file_system',
    severity: 'critical',
    meaning: 'The SQLite file is on a network file system, whose locks and writes SQLite cannot rely on.',
    remedy: 'Move the file to a local disk, or use Postgres.',
    find: ({ store: { disk } }) => {
      if (disk === null || disk.network === null) return undefined
      return {
        sentence: `${disk.path} is on a network file system (${disk.network}): it may be damaged, and accepted messages may be lost.`,
        evidence: { path: disk.path, fileSystem: disk.network },
        command: `df -T ${quoted(disk.path)}`,
      }
    },
  },
  {
    code: 'postgres_not_durable',
    severity: 'critical',
    meaning: 'The Postgres server has `fsync` or `full_page_writes` off: a power cut loses accepted messages.',
    remedy: 'Switch the setting on and reload the server. Sluice refuses new connections until then.',
    find: ({ store: { server } }) => {
      if (server === null || server.unsafe.length === 0) return undefined
      const names = server.unsafe.map((setting) => setting.split(' ')[0])
      return {
        sentence: `The Postgres server would lose accepted messages in a power cut: ${server.unsafe.join(', ')}.`,
        evidence: { settings: server.unsafe.join(', ') },
        command: `${names.map((name) => psql(`alter system set ${name} = on`)).join(' && ')} && ${psql('select pg_reload_conf()')}`,
      }
    },
  },
  {
    code: 'postgres_async_commit',
    meaning:
      "The database's default of `synchronous_commit` is off. Sluice's own publishes set it on, but not those that a program makes within its own transactions.",
    remedy: 'Set it on for the database, or in the program that publishes within its transactions.',
    find: ({ store: { server } }) => {
      if (server === null || server.synchronousCommit !== 'off') return undefined
      return {
        sentence:
          'synchronous_commit is off by default in this database: a power cut may lose messages that programs publish within their own transactions.',
        evidence: { synchronousCommit: server.synchronousCommit },
        command: psql(`alter database ${server.database} set synchronous_commit = on`),
      }
    },
  },
  {
    code: 'postgres_standby',
    meaning:
      'The store names several servers, or standbys follow the Postgres server, but no commit waits for one: a failover loses the messages that were accepted last.',
    remedy:
      'Set `synchronous_standby_names`. With a single standby, publishes then wait while it is away; with two and `ANY 1`, they do not.',
    find: ({ store: { server } }) => {
      if (server === null || server.replication.awaited !== '') return undefined
      const { named, following } = server.replication
      if (following === 0 && named < 2) return undefined
      const standbys =
        following === 0
          ? `The store names ${named} Postgres servers, and no standby follows the primary`
          : `${count(following, 'standby follows', 'standbys follow')} the Postgres server, and no commit waits for one`
      return {
        sentence: `${standbys}: a failover loses the messages that were accepted last.`,
        evidence: { named, following, synchronous: 0 },
        command:
          following === 0
            ? psql('select * from pg_stat_replication')
            : `${psql("alter system set synchronous_standby_names = 'ANY 1 (*)'")} && ${psql('select pg_reload_conf()')}`,
      }
    },
  },
  {
    code: 'postgres_connections',
    criticalWhen: 'every connection is in use',
    meaning: 'Nine of ten connections that the server, the database or the role may have are in use.',
    remedy: 'Raise the limit, or end programs that keep connections open.',
    find: ({ store: { server } }, { connectionShare }) => {
      if (server === null) return undefined
      const { of, used, limit } = server.connections
      if (used < limit * connectionShare) return undefined
      const owner = { server: 'the server', database: 'the database', role: 'the role' }[of]
      return {
        severity: used >= limit ? 'critical' : 'warning',
        sentence: `${used} of ${limit} connections of ${owner} are in use. Each process of Sluice needs up to nine.`,
        evidence: { of, used, limit },
        command: psql(
          'select usename, application_name, state, count(*) from pg_stat_activity group by 1, 2, 3 order by 4 desc',
        ),
      }
    },
  },
  {
    code: 'postgres_open_transaction',
    criticalWhen: 'other sessions wait for a lock of it',
    meaning:
      'A session has been idle within a transaction for a minute, or a transaction runs for ten minutes. Vacuum removes nothing that is newer, so that queues become slow to read.',
    remedy: 'End the session, and set `idle_in_transaction_session_timeout` for its role.',
    find: ({ store: { server } }, { idleTransactionMs, longTransactionMs }) => {
      const open = server?.oldestTransaction ?? null
      if (open === null || open.ageMs < (open.isIdle ? idleTransactionMs : longTransactionMs)) return undefined
      const { pid, application, isIdle, ageMs, blocks } = open
      const blocked = blocks === 0 ? '' : ` ${count(blocks, 'session waits', 'sessions wait')} for its locks.`
      const state = isIdle ? 'is idle within a transaction that began' : 'runs a transaction that began'
      return {
        severity: blocks > 0 ? 'critical' : 'warning',
        sentence: `Session ${pid} (${application || 'unnamed'}) ${state} ${span(ageMs)} ago: vacuum cannot remove newer rows.${blocked}`,
        evidence: { pid, application, isIdle, ageMs, blocks },
        command: psql(`select pg_terminate_backend(${pid})`),
      }
    },
  },
  {
    code: 'postgres_vacuum_lags',
    meaning: 'A table has more than 200,000 dead rows and twice as many as live ones, or autovacuum is off.',
    remedy: 'Switch autovacuum on, look for old transactions, and vacuum the table.',
    find: ({ store: { server } }, limits) => {
      if (server === null) return undefined
      const { autovacuum, deadRows } = server
      const lags = deadRows !== null && deadRows.dead >= limits.deadRows && deadRows.dead > 2 * deadRows.live
      if (autovacuum && !lags) return undefined
      const { table = 'pending', dead = 0, live = 0 } = deadRows ?? {}
      const rows = `The table ${table} has ${count(dead, 'dead row')} beside ${count(live, 'live row')}`
      return {
        sentence: autovacuum ? `${rows}: autovacuum does not keep up.` : `Autovacuum is off. ${rows}.`,
        evidence: { autovacuum, table, deadRows: dead, liveRows: live },
        command: autovacuum ? psql(`vacuum (analyze) ${table}`) : psql('alter system set autovacuum = on'),
      }
    },
  },
  {
    code: 'clock_off',
    criticalWhen: 'it is off by more than a minute: receivers refuse signatures whose time is wrong',
    meaning: 'The clock of a process differs from that of the Postgres server by more than two seconds.',
    remedy: 'Let the machine follow a time server.',
    find: ({ process, workers, traits }, { clockMs }) => {
      if (!traits.isShared) return undefined
      const clocks = [
        { name: 'The clock of this server', aheadMs: process.clockAheadMs },
        ...workers.filter(isAlive).map(({ id, name, clockAheadMs }) => ({
          name: `The clock of worker ${id} (${name})`,
          aheadMs: clockAheadMs ?? 0,
        })),
      ]
      const [worst] = clocks.toSorted((a, b) => Math.abs(b.aheadMs) - Math.abs(a.aheadMs))
      if (worst === undefined || Math.abs(worst.aheadMs) < clockMs) return undefined
      const off = Math.abs(worst.aheadMs)
      return {
        severity: off >= 60_000 ? 'critical' : 'warning',
        sentence: `${worst.name} is ${span(off)} ${worst.aheadMs > 0 ? 'ahead of' : 'behind'} the Postgres server's. Receivers refuse signatures whose time is off by minutes.`,
        evidence: {
          aheadMs: Math.round(worst.aheadMs),
          clocksOff: clocks.filter(({ aheadMs }) => Math.abs(aheadMs) >= clockMs).length,
        },
        command: 'timedatectl status',
      }
    },
  },
  {
    code: 'no_worker',
    criticalWhen: 'deliveries wait',
    meaning: 'No worker is alive, so nothing is delivered.',
    remedy: 'Start `sluice serve` or `sluice worker` on the store.',
    find: ({ workers, waiting }, _limits, known) => {
      if (workers.some(isAlive)) return undefined
      known.allExplained = true
      const lapsed = workers.filter(({ state }) => state === 'lapsed').length
      return {
        severity: waiting.total > 0 ? 'critical' : 'warning',
        sentence: `No worker is alive. ${count(waiting.total, 'delivery waits', 'deliveries wait')}.`,
        evidence: { waiting: waiting.total, lapsed },
        command: 'sluice serve',
      }
    },
  },
  {
    code: 'region_without_worker',
    severity: 'critical',
    meaning: 'Deliveries wait for endpoints of a region that no living worker serves.',
    remedy:
      'Start a worker with that region, or one without `--region`. On SQLite one process owns the file: restart it without `--region`, or with the region in its list.',
    find: ({ endpoints, traits }, _limits, { explained }) => {
      const waiting = endpoints.filter((each) => !explained.has(each) && each.reason === 'no_worker_in_region')
      for (const each of waiting) explained.add(each)
      return [...Map.groupBy(waiting, ({ region }) => region)].map(([region, some]) => {
        const sum = some.reduce((total, each) => total + each.waiting, 0)
        const exact = some.every(({ isExact }) => isExact) ? '' : 'at least '
        return {
          sentence: `No worker serves the region ${region}: ${exact}${count(sum, 'delivery waits', 'deliveries wait')} for ${count(some.length, 'endpoint')} of it.`,
          evidence: { region, waiting: sum, endpoints: some.length },
          // A second process cannot own a SQLite file, and a list of regions would leave out others.
          command: traits.isShared ? `sluice worker --region ${region}` : 'sluice serve',
        }
      })
    },
  },
  watchedRules.worker_died,
  {
    code: 'leader_missing',
    meaning: 'No process leads, though workers are alive: schedules, retention and sweeps stand still.',
    remedy: 'Restart a worker, and read its log for "trouble while leading".',
    find: ({ workers, hasLeader }, { leaderlessMs }) => {
      const longest = Math.max(0, ...workers.filter(isAlive).map(({ joinedAgoMs }) => joinedAgoMs))
      if (hasLeader || longest < leaderlessMs || !workers.some(isAlive)) return undefined
      return {
        sentence: `No process leads, though a worker has been alive for ${span(longest)}. Schedules, retention and sweeps stand still.`,
        evidence: { workers: workers.filter(isAlive).length, longestAliveMs: longest },
        command: 'sluice workers',
      }
    },
  },
  {
    code: 'versions_differ',
    meaning: 'The server and the workers run different versions of Sluice.',
    remedy: 'Finish the upgrade: restart the processes of the older version.',
    find: ({ workers, process }) => {
      const alive = workers.filter(isAlive)
      const versions = new Map<string, number>([[process.version, 0]])
      for (const { version } of alive) if (version !== null) versions.set(version, (versions.get(version) ?? 0) + 1)
      if (versions.size < 2) return undefined
      const list = [...versions].map(([version, n]) => `${version} (${count(n, 'worker')})`).join(', ')
      return {
        sentence: `Processes run different versions: ${list}. This one runs ${process.version}.`,
        evidence: { thisProcess: process.version, versions: [...versions.keys()].join(', ') },
        command: 'sluice workers',
      }
    },
  },
]

export function isAlive({ state }: WorkerFacts): boolean {
  return state === 'alive'
}

/** All slots of the workers alive, and how many are in use. */
export function slotsOf({ workers }: Pick<SystemFacts, 'workers'>): {
  readonly inFlight: number
  readonly limit: number
} {
  const slots = workers.filter(isAlive).flatMap(({ slots }) => slots ?? [])
  return {
    inFlight: slots.reduce((sum, { inFlight }) => sum + inFlight, 0),
    limit: slots.reduce((sum, { limit }) => sum + limit, 0),
  }
}

/** The lanes of all workers that could send, and wait for a slot. */
export function slotWaitsOf({ workers }: Pick<SystemFacts, 'workers'>): Pick<SlotWaits, 'lanes' | 'longestMs'> {
  const waits = workers.filter(isAlive).flatMap((worker) => worker.waits ?? [])
  return {
    lanes: waits.reduce((sum, { lanes }) => sum + lanes, 0),
    longestMs: Math.max(0, ...waits.map(({ longestMs }) => longestMs)),
  }
}

/** How many endpoints wait for a slot, and how many are in use, in words. */
export function saturationText(facts: Pick<SystemFacts, 'workers'>): string {
  const { lanes, longestMs } = slotWaitsOf(facts)
  const longest = lanes === 0 ? '' : `, the longest for ${span(longestMs)}`
  return `${count(lanes, 'endpoint waits', 'endpoints wait')} for a slot of a worker${longest}. Workers use ${slotsText(facts)}.`
}

/** Slots in use in words. */
export function slotsText(facts: Pick<SystemFacts, 'workers'>): string {
  const { inFlight, limit } = slotsOf(facts)
  return `${inFlight} of ${limit} slots (${percent(limit === 0 ? 0 : inFlight / limit)})`
}

/** A path as a shell takes it. */
function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`
}
