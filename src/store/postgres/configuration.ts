import type { Configuration } from '../configuration.ts'
import { applications } from './applications.ts'
import type { Database } from './database.ts'
import { endpoints } from './endpoints.ts'

/** Applications and endpoints. */
export function configuration(database: Database): Configuration {
  return { ...applications(database), ...endpoints(database) }
}
