import type { Configuration } from '../configuration.ts'
import { applications } from './applications.ts'
import type { Connection, Synchronous } from './connection.ts'
import { endpoints } from './endpoints.ts'

/** Applications and endpoints. */
export function configuration(connection: Connection): Synchronous<Configuration> {
  return {
    ...applications(connection),
    ...endpoints(connection),
  }
}
