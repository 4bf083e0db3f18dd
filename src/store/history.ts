import type { Attempt, DeadLetter, Message } from '../domain/delivery.ts'
import type { DeliveryKey } from './browsing.ts'

/** What became of messages. */
export interface History {
  /** By id or eventId, within the application. */
  findMessage(app: number, ref: string): Promise<Message | undefined>
  /** All attempts of one message, by endpoint and ordinal. */
  attemptsOf(message: number): Promise<Attempt[]>
  findDead(endpoint: number, message: number): Promise<DeadLetter | undefined>
  /** Those of these deliveries that are dead letters. */
  deadAmong(deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]>
  /** Counts for people and tests: deliveries not finished, dead letters, messages, attempts. */
  counts(): Promise<{ pending: number; dead: number; messages: number; attempts: number }>
}
