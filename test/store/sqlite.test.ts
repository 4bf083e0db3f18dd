import { describe } from 'node:test'
import { conformance } from './conformance/suite.ts'
import { openSqliteHarness } from './sqlite-harness.ts'

describe('sqlite', () => conformance(openSqliteHarness))
