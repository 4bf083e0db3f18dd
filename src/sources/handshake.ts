import { valueAt } from '../json/pointer.ts'
import { textOf } from '../json/token.ts'
import { type Answer, type Arrival, type Handshake, headerOf, type Refusal, refused } from './arrival.ts'
import { isOneOf, parameterOf } from './credentials.ts'

/** A handshake that a provider signs like an event. Undefined for an event. */
export type SignedHandshake = (arrival: Arrival) => Answer | undefined

/** Challenges are repeated in the answer: 36 characters at Slack, about 10 at Meta. */
const challengeLimit = 1024

/** Slack asks for the challenge of a `url_verification` when the URL is saved. */
export const slackChallenge: SignedHandshake = ({ body }) => {
  if (textAt(body, '/type') !== 'url_verification') return undefined
  const challenge = textAt(body, '/challenge')
  return challenge === undefined ? undefined : plainText(challenge)
}

/** GitHub sends a ping when a webhook is created. It is no event of the repository. */
export const githubPing: SignedHandshake = (arrival) =>
  headerOf(arrival, 'x-github-event') === 'ping' ? plainText('pong') : undefined

/** Meta asks for the challenge with the verify token, by a GET without a signature. */
export function metaChallenge(arrival: Arrival, verifyToken: string): Handshake | Refusal {
  const [mode, token, challenge] = ['hub.mode', 'hub.verify_token', 'hub.challenge'].map((name) =>
    parameterOf(arrival, name),
  )
  if (mode !== 'subscribe' || token === undefined || challenge === undefined || challenge.length > challengeLimit) {
    return refused('malformed', 'The request is no verification of a callback URL: a parameter hub.* is missing.')
  }
  if (!isOneOf([verifyToken], token)) return refused('wrong_signature', 'The parameter hub.verify_token is wrong.')
  return { kind: 'answer', answer: plainText(challenge) }
}

/** A text of the sender goes back as plain text, so that no browser takes it for a page. */
function plainText(body: string): Answer {
  return {
    status: 200,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
    body,
  }
}

const quote = 0x22

/** A short string of a JSON body. */
function textAt(body: Uint8Array, pointer: string): string | undefined {
  // Handshakes are short, so that no large body is searched for one.
  if (body.length > 16 * challengeLimit) return undefined
  const span = valueAt(body, pointer)
  if (span === undefined || body[span.start] !== quote || span.end - span.start > challengeLimit) return undefined
  return textOf(body, span.start, span.end)
}
