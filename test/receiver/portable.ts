/**
 * Checks of the package that run in every runtime: no import but the package, nothing of Node. The test that bundles this
 * module signs the requests.
 */
import { memoryStore, openReceiver, openVerifier, type SignatureProfile } from '../../receiver/src/index.ts'

/** A signed request and the secrets that verify it. */
export interface Vector {
  readonly name: string
  readonly profile: SignatureProfile
  readonly secret: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The names of all checks that failed. */
export async function failures(vectors: readonly Vector[], nowMs: number): Promise<string[]> {
  const failed: string[] = []
  const now = () => nowMs
  for (const { name, profile, secret, headers, body } of vectors) {
    const verifier = openVerifier({ secret, profile, now })
    const codeFor = async (bytes: string) =>
      verifier.verify({ headers, body: new TextEncoder().encode(bytes) }).then(
        () => 'genuine',
        (error: { code?: string }) => error.code ?? String(error),
      )
    const codes = [await codeFor(body), await codeFor(`${body} `)]
    if (codes.join() !== 'genuine,wrong_signature') failed.push(`${name}: ${codes}`)
  }
  const [first] = vectors as readonly [Vector]
  const works: string[] = []
  const receiver = openReceiver({
    secret: first.secret,
    now,
    store: memoryStore(),
    maxBodyBytes: 1000,
    handle: (webhook) => void works.push(webhook.text()),
  })
  const answers: string[] = []
  for (const body of [first.body, first.body, 'tampered', 'x'.repeat(1001)]) {
    const request = new Request('http://localhost/', { method: 'POST', headers: first.headers, body })
    const response = await receiver.receive(request)
    const { status, code } = (await response.json()) as { status?: string; code?: string }
    answers.push(`${response.status} ${status ?? code}`)
  }
  const expected = '200 handled,200 duplicate,401 wrong_signature,413 body_too_large'
  if (answers.join() !== expected || works.join() !== first.body) failed.push(`receive: ${answers} ${works}`)
  return failed
}
