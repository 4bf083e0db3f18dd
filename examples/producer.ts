/**
 * A producer in any language looks like this: it speaks HTTP to a Sluice server and needs no library. An event that was
 * refused for the moment is sent again under the same eventId, so that it is published once however often it is sent.
 *
 *     SLUICE_URL=http://127.0.0.1:8484 SLUICE_API_KEY=sk_… node examples/producer.ts
 */
import { setTimeout as sleep } from 'node:timers/promises'

const { SLUICE_URL: url = 'http://127.0.0.1:8484', SLUICE_API_KEY: key } = process.env
const tries = 5

function post(path: string, body: unknown): Promise<Response> {
  return fetch(`${url}/api/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

/** Publishes an event; the answer is the message's id. */
async function publish(app: string, eventType: string, eventId: string, payload: object): Promise<string> {
  for (let attempt = 1; attempt <= tries; attempt++) {
    const answer = await post(`/app/${app}/msg`, { eventType, eventId, payload }).catch(() => undefined)
    if (answer?.status === 202) return ((await answer.json()) as { id: string }).id
    // An earlier try got through and only its answer was lost.
    if (answer?.status === 409) return eventId
    const isPassing = answer === undefined || answer.status === 429 || answer.status >= 500
    if (!isPassing) throw new Error(`refused: ${await answer.text()}`)
    await sleep(1000 * Number(answer?.headers.get('retry-after') ?? attempt))
  }
  throw new Error(`not published in ${tries} tries`)
}

await post('/app?get_if_exists=true', { uid: 'acme', name: 'Acme' })
console.log(`published ${await publish('acme', 'video.trending', 'video-42-trending', { video: 42 })}`)
console.log(`published again: ${await publish('acme', 'video.trending', 'video-42-trending', { video: 42 })}`)
