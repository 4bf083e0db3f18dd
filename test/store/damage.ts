/** One sealed record in a database. */
export interface Record {
  readonly table: string
  readonly column: string
  readonly where: string
  /** Which byte to change. */
  readonly position: number
}

/** Changes one byte of a sealed record behind the store's back. */
export async function damage(
  database: { query(sql: string): Promise<{ [column: string]: unknown }[]> },
  dialect: string,
  { table, column, where, position }: Record,
): Promise<void> {
  const [row] = await database.query(`select ${column} as sealed from ${table} where ${where}`)
  const sealed = String(row?.sealed)
  const flipped = String.fromCharCode(sealed.charCodeAt(position) ^ 1)
  const damaged = sealed.slice(0, position) + flipped + sealed.slice(position + 1)
  const isJson = dialect === 'postgres' && table !== 'region'
  await database.query(`update ${table} set ${column} = '${isJson ? JSON.stringify(damaged) : damaged}' where ${where}`)
}
