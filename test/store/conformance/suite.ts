import { describe } from 'node:test'
import { configuration } from './configuration.ts'
import { delivering } from './delivering.ts'
import type { Open } from './harness.ts'
import { history } from './history.ts'
import { intake } from './intake.ts'
import { lanes } from './lanes.ts'
import { ownership } from './ownership.ts'
import { reconciling } from './reconciling.ts'
import { settling } from './settling.ts'

/** What every store promises. `open` makes a fresh, empty store for each test. */
export function conformance(open: Open): void {
  describe('configuration', () => configuration(open))
  describe('intake', () => intake(open))
  describe('ownership', () => ownership(open))
  describe('lanes', () => lanes(open))
  describe('reconciling', () => reconciling(open))
  describe('delivering', () => delivering(open))
  describe('settling', () => settling(open))
  describe('history', () => history(open))
}
