import type { Task, TaskCursor, TaskData, TaskStatus, TaskWork } from '../../domain/task.ts'

export interface TaskRow {
  readonly key: number
  readonly id: string
  readonly app: number | null
  readonly type: string
  readonly status: TaskStatus
  readonly input: TaskWork['input']
  readonly cursor: TaskCursor | null
  readonly data: TaskData
  readonly epoch: number
  readonly created_at: number
  readonly updated_at: number
}

export function toTask(row: TaskRow): Task {
  return {
    key: row.key,
    id: row.id,
    app: row.app,
    work: { type: row.type, input: row.input } as TaskWork,
    status: row.status,
    cursor: row.cursor,
    data: row.data,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
