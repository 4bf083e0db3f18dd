/** A change without the fields that are given as undefined, which are not given. */
export function given<T extends object>(change: T): Given<T> {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Given<T>
}

export type Given<T> = { [Field in keyof T]?: Exclude<T[Field], undefined> }
