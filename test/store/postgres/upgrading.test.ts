import type { TestContext } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { migrate, readSchema } from '../../../src/store/postgres/migrate.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { registeredStatements } from '../../../src/store/sql/statement.ts'
import { type Upgraded, upgrading } from '../conformance/upgrading.ts'
import { context, newDatabase, serversAt, sharedServer } from '../postgres-harness.ts'

async function place(_: TestContext, content: 'empty' | 'migrated'): Promise<Upgraded> {
  const server = await sharedServer()
  const url = content === 'empty' ? await server.createDatabase() : await newDatabase()
  return {
    migrate: (migrations) => migrate(serversAt(url), migrations),
    read: () => readSchema(serversAt(url)),
    open: (log) => openPostgresStore({ ...context, log: (line) => void log.push(line) }, { url }),
    rows: async (sql) => (await server.query(sql, url)).rows,
    async prepareAll() {
      const session = await server.session(url)
      let n = 0
      for (const sql of registeredStatements('postgres').values()) await session.query(`prepare s${n++} as ${sql}`)
      await session.end()
    },
    pass: (ms) => new Promise((resolve) => void systemClock.after(ms, resolve)),
  }
}

// Partitions get their columns from the tables that they are parts of.
upgrading(
  'postgres',
  place,
  `select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
)
