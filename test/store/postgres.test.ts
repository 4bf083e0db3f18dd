import { describe } from 'node:test'
import { conformance } from './conformance/suite.ts'
import { openPostgresHarness } from './postgres-harness.ts'

describe('postgres', { concurrency: 2 }, () => conformance(openPostgresHarness))
