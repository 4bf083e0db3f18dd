import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { senderDepsOf } from '../../src/compose/delivering.ts'
import type { Outcome } from '../../src/domain/outcome.ts'
import { configOf } from '../../src/runtime/config.ts'
import type { OutgoingMessage, Sender, Target } from '../../src/sender/send.ts'
import { openSender, type SenderDeps } from '../../src/sender/sender.ts'

/** The secret of the Standard Webhooks test vectors. */
export const exampleSecret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

export const loopback = ['127.0.0.0/8', '::1/128']

export const exampleMessage: OutgoingMessage = {
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  body: Buffer.from('{"test": 2432232314}'),
  contentType: 'application/json',
}

/** The result of an attempt: its outcome, and how often `onLeave` was called before. */
export interface Sent {
  readonly outcome: Outcome
  readonly leaves: number
}

/** A sender that may go to loopback, closed with the test. */
export function testSender(t: TestContext, context: Partial<SenderDeps> = {}): Sender {
  const sender = openSender({
    ...senderDepsOf(configOf({})),
    version: '0.0.0-test',
    allowNetworks: loopback,
    ...context,
  })
  t.after(() => sender.close())
  return sender
}

/** A target at that URL, with 10 s to answer. */
export function targetAt(url: string, target: Partial<Target> = {}): Target {
  return { url, secrets: [{ secret: exampleSecret, expiresAt: null }], headers: {}, timeoutMs: 10_000, ...target }
}

/** Makes one attempt. */
export function send(sender: Sender, target: Target, message: OutgoingMessage = exampleMessage): Promise<Sent> {
  const line = sender.open(target)
  let leaves = 0
  return new Promise((resolve, reject) => {
    let ends = 0
    line.send(
      message,
      () => {
        leaves++
        if (ends > 0) reject(new Error('left after it had ended'))
      },
      (outcome) => {
        if (ends++ > 0) throw new Error('ended twice')
        resolve({ outcome, leaves })
      },
    )
  })
}

/** The attempt ended at its deadline and not at a later one; a busy machine may stop the process for seconds. */
export function assertAtDeadline({ durationMs }: Outcome, timeoutMs: number): void {
  assert.ok(durationMs >= timeoutMs && durationMs < timeoutMs + 8_000, `took ${durationMs} ms`)
}
