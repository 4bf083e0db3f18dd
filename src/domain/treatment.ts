import type { Flow } from './flow.ts'

/** What publishing must know of an endpoint whose flow is not the default one. */
export interface Treatment {
  /** The endpoint's id. */
  readonly id: string
  readonly flow: Flow
  readonly disabled: boolean
  /** The newest secret, for profiles that sign at publish; null when there is none, or it cannot be read. */
  readonly secret: string | null
  /** The secret of the endpoint's region; null without one, or when it cannot be read. */
  readonly regionSecret: string | null
}
