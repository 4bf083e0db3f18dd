import { AppError } from '../domain/app-error.ts'
import { StoreTrouble } from '../store/store.ts'

/** The eventId is that of another message. */
export function usedEventId(eventId: string | null, id: string): AppError {
  return new AppError('conflict', `The eventId ${eventId} is already used by the message ${id}.`)
}

/** The request's key was used before, for something else. */
export function usedKey(): AppError {
  const field = { at: ['header', 'idempotency-key'], message: 'was used for another request', type: 'idempotency' }
  return new AppError('validation', 'The Idempotency-Key was used for another request.', [field])
}

/** What a caller is told when the store failed: that it cannot now, where that is all there is to it. */
export function refusalFor(error: unknown): unknown {
  if (!(error instanceof StoreTrouble)) return error
  return new AppError('unavailable', error.detail ?? 'The store cannot take messages at the moment.', [], {
    cause: error,
  })
}

/** A message was matched again and again, and each time before it was stored somebody changed who gets it. */
export function keepChanging(): AppError {
  return new AppError('unavailable', "The application's endpoints keep changing.")
}
