/** A new row's key and the id made from it. */
export interface Identity {
  readonly key: number
  readonly id: string
}
