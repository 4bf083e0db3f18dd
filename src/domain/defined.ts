/** A change without its undefined fields. */
export function defined<T extends object>(change: T): Defined<T> {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Defined<T>
}

export type Defined<T> = { [Field in keyof T]?: Exclude<T[Field], undefined> }
