import { rowOf } from '../../noun/rows.ts'
import type { Methods, Port } from '../../store/sql/port.ts'
import { parameters, replacements, statement } from '../../store/sql/statement.ts'
import { type PortalLook, portalLook } from './noun.ts'

export interface PortalLooks {
  /** How the application's portal looks; undefined until it is set. */
  findPortalLook(app: number): Promise<PortalLook | undefined>
  /** Sets how the portal looks. Answers whether there is such an application. */
  setPortalLook(app: number, look: PortalLook): Promise<boolean>
}

const { settable, columns, shape, valuesOf } = rowOf<typeof portalLook, PortalLook>(portalLook)
const selectLook = statement<PortalLook>('portal-look', shape)`select ${columns} from portal_look where app = :app`
// A row of an application that is not deleted.
const setLook = statement('set-portal-look')`
  insert into portal_look (app, ${settable.join(', ')})
  select key, ${parameters(settable)} from application where key = :app and deleted_at is null
  on conflict (app) do update set ${replacements(settable)} returning app`

/** The looks of portals. */
export function portalLooks(port: Port): Methods<PortalLooks> {
  return {
    findPortalLook: (app) => port.first(selectLook, { app }),
    setPortalLook: (app, look) => port.transaction((sql) => sql.any(setLook, { ...valuesOf(look), app })),
  }
}
