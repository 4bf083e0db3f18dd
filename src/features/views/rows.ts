import { thingsOf } from '../../noun/rows.ts'
import type { Methods, Port } from '../../store/sql/port.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import { type NewView, type View, type ViewChange, view } from './noun.ts'

/** Filters that operators saved, of the whole server: they have no application. */
export interface Views {
  /** Rejects with AppError `conflict` when the uid is taken, and `quota_exceeded` when there are too many. */
  createView(input: NewView): Promise<View>
  /** By id or uid. */
  findView(app: null, ref: string): Promise<View | undefined>
  listViews(page: PageRequest): Promise<Page<View>>
  updateView(key: number, change: ViewChange): Promise<View | undefined>
  /** Answers whether there was one. */
  deleteView(key: number): Promise<boolean>
}

const rows = thingsOf<typeof view, View>(view)

/** Filters that operators saved. */
export function views(port: Port): Methods<Views> {
  const stored = rows.on(port)
  return {
    createView: (input) => stored.create(null, undefined, () => input),
    findView: stored.find,
    listViews: (page) => stored.list(null, page),
    updateView: (key, change) => stored.update(null, key, () => change as Partial<View>),
    deleteView: (key) => port.transaction((sql) => stored.remove(sql, null, key)),
  }
}
