import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import { registeredStatements } from '../../../src/store/sql/statement.ts'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import { migrate, readSchema } from '../../../src/store/sqlite/migrate.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { type Upgraded, upgrading } from '../conformance/upgrading.ts'
import { contextWith, migratedPlace, temporaryPlace } from '../sqlite-harness.ts'

async function place(t: TestContext, content: 'empty' | 'migrated'): Promise<Upgraded> {
  const files = content === 'empty' ? temporaryPlace() : await migratedPlace()
  t.after(files.remove)
  const { path } = files
  const clock = new VirtualClock()
  return {
    async migrate(migrations) {
      using db = new DatabaseSync(path)
      return migrate(new Connection(db, contextWith(clock)), migrations)
    },
    read: async () => readSchema(path),
    open: (log) =>
      openSqliteStore({ ...contextWith(clock), log: (line) => void log.push(line) }, { path, role: 'owner' }),
    async rows(sql) {
      using db = new DatabaseSync(path)
      return db.prepare(sql).all()
    },
    async prepareAll() {
      using db = new DatabaseSync(path)
      for (const sql of registeredStatements('sqlite').values()) db.prepare(sql)
    },
    pass: async (ms) => clock.advance(ms),
  }
}

upgrading('sqlite', place, `select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`)
