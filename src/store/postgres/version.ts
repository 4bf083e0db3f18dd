import { bumpVersion as shared } from '../sql/applications.ts'
import type { Statement } from './sessions.ts'

export const bumpVersion: Statement = { name: shared.name, text: shared.in('postgres').text }
