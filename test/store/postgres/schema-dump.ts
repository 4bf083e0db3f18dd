import type { PostgresServer } from '../postgres-server.ts'

// Days come and go, so of the partitions only the default ones belong to the schema.
const kept = `
  c.relnamespace = 'public'::regnamespace and (not c.relispartition or c.relname like '%\\_default')`

const selectTables = `
  select c.oid, c.relname as name, pg_get_partkeydef(c.oid) as partition_key,
         pg_get_expr(c.relpartbound, c.oid) as bound, array_to_string(c.reloptions, ', ') as options
    from pg_class c where c.relkind in ('r', 'p') and ${kept} order by c.relname`

const selectColumns = `
  select a.attrelid, a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
         || case when a.attidentity = 'a' then ' generated always as identity' else '' end
         || case when a.attnotnull then ' not null' else '' end
         || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') as line
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where c.relkind in ('r', 'p') and ${kept} and a.attnum > 0 and not a.attisdropped
   order by a.attrelid, a.attnum`

const selectIndexes = `
  select i.indrelid, pg_get_indexdef(i.indexrelid) as line
    from pg_index i join pg_class c on c.oid = i.indrelid
   where ${kept} order by i.indexrelid::regclass::text`

const selectSequences = `
  select sequencename as name, data_type, min_value, max_value, cycle from pg_sequences
   where schemaname = 'public' and sequencename not like '%\\_id\\_seq' order by sequencename`

/** Every table, column, index, storage option and sequence of a database as text that changes only when they do. */
export async function dumpSchema(server: PostgresServer, url: string): Promise<string> {
  const tables = (await server.query(selectTables, url)).rows
  const columns = (await server.query(selectColumns, url)).rows
  const indexes = (await server.query(selectIndexes, url)).rows
  const sequences = (await server.query(selectSequences, url)).rows
  const parts = tables.map((table) => {
    const lines = columns.filter((column) => column.attrelid === table.oid).map((column) => `  ${column.line}`)
    const partition = table.partition_key === null ? '' : ` partition by ${table.partition_key}`
    const bound = table.bound === null ? '' : ` -- partition: ${table.bound}`
    const options = table.options === null ? '' : ` with (${table.options})`
    const own = indexes.filter((index) => index.indrelid === table.oid).map((index) => `${index.line};\n`)
    return `create table ${table.name} (\n${lines.join(',\n')}\n)${partition}${options};${bound}\n${own.join('')}`
  })
  const sequenceLines = sequences.map(
    (s) =>
      `create sequence ${s.name} as ${s.data_type} minvalue ${s.min_value} maxvalue ${s.max_value}${s.cycle ? ' cycle' : ''};\n`,
  )
  return [...parts, ...sequenceLines].join('\n')
}
