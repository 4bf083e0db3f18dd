import { useEffect, useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { EndpointSignatureOut } from '../api/schema.ts'
import type { EndpointPath } from '../pages/endpoint.tsx'
import { RotateDialog } from '../pages/endpoint-actions.tsx'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { Facts, Failure, Section } from '../parts/page.tsx'
import { mayChangeSecrets, mayViewSecrets } from '../session.ts'
import { SecretLine } from './endpoint-form.tsx'

/** The secret of an endpoint, the headers that carry its signature, and code that verifies it. */
export function SignatureView({ at }: { at: EndpointPath }) {
  const signature = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}/signature', { path: at })
  return (
    <>
      {mayViewSecrets() && <Secret at={at} />}
      {signature.error && <Failure error={signature.error} retry={signature.refresh} />}
      {signature.data && <Verify signature={signature.data} />}
    </>
  )
}

function Secret({ at }: { at: EndpointPath }) {
  const [secret, setSecret] = useState<string>()
  const [isRotating, setRotating] = useState(false)
  const show = async () => {
    setSecret((await call('GET /app/{app_id}/endpoint/{endpoint_id}/secret', { path: at })).key)
  }
  return (
    <Section
      title="Signing secret"
      actions={mayChangeSecrets() && <Button onPress={() => setRotating(true)}>Rotate…</Button>}
    >
      <div class="inside step">
        <SecretLine secret={secret} onShow={show} />
        <p class="hint">Your receiver verifies requests with it. Keep it out of your repository.</p>
      </div>
      {isRotating && (
        <RotateDialog
          at={at}
          onClose={() => {
            setRotating(false)
            // The shown one may be old now.
            setSecret(undefined)
          }}
        />
      )}
    </Section>
  )
}

const ed25519 =
  'Signatures are ed25519 of the id, the timestamp and the body with a dot between them, in base64 behind v1a,. Verify them with the public key, whpk_…, which is shown above.'

const other: Readonly<Record<string, string>> = {
  stored: 'Signatures are HMAC-SHA256 of the body, in hex. They were made when the message was accepted.',
  timestamped: 'Signatures are HMAC-SHA256 of the timestamp, a dot and the body, in hex.',
  github: 'Signatures are as GitHub makes them: sha256= and HMAC-SHA256 of the body, in hex.',
  stripe: 'Signatures are as Stripe makes them: t= the time, v1= HMAC-SHA256 of the time, a dot and the body, in hex.',
}

function Verify({ signature: { profile, algorithm, headers } }: { signature: EndpointSignatureOut }) {
  const [names] = headers
  if (names === undefined) return null
  return (
    <Section title="Verify requests" note="Take the body as raw bytes, before any parser.">
      <Facts
        facts={[
          ['Id header', <code key="id">{names.id}</code>],
          ...(names.timestamp === '' ? [] : [['Timestamp header', <code key="time">{names.timestamp}</code>] as const]),
          ['Signature header', <code key="signature">{names.signature}</code>],
        ]}
      />
      {profile === 'standard' && algorithm === 'hmac-sha256' ? (
        <Snippets names={names} />
      ) : (
        <p class="inside soft">{algorithm === 'ed25519' ? ed25519 : other[profile]}</p>
      )}
    </Section>
  )
}

interface Snippet {
  readonly language: string
  readonly code: string
}

/** Code that verifies, in the reader's language. The guide has it, where tests run it. */
function Snippets({ names }: { names: EndpointSignatureOut['headers'][number] }) {
  const [snippets, setSnippets] = useState<readonly Snippet[]>([])
  const [language, setLanguage] = useState(rememberedLanguage)
  useEffect(() => {
    void import('../../../docs/receivers.md?raw').then(({ default: guide }) => setSnippets(snippetsOf(guide)))
  }, [])
  const shown = snippets.find((each) => each.language === language) ?? snippets[0]
  if (shown === undefined) return <div class="loading" aria-busy="true" />
  return (
    <div class="inside step">
      <div class="languages" role="group" aria-label="Language">
        {snippets.map((each) => (
          <button
            key={each.language}
            type="button"
            aria-pressed={each === shown}
            onClick={() => {
              setLanguage(each.language)
              remember(each.language)
            }}
          >
            {each.language}
          </button>
        ))}
      </div>
      <Code text={withNames(shown.code, names)} label={`code in ${shown.language}`} />
      <p class="hint">
        It returns whether a request is genuine. Answer 2xx within a few seconds, and work on the event afterwards. The
        same event may come twice, with the same <code>{names.id}</code>.
      </p>
    </div>
  )
}

/** The blocks of code below “Code”, by their headings. */
export function snippetsOf(guide: string): readonly Snippet[] {
  const part = guide.slice(guide.indexOf('\n## Code'), guide.indexOf('\n## Check your code'))
  return [...part.matchAll(/\n### (.+)\n+```\w+\n([\s\S]*?)\n```/g)].map(([, language = '', code = '']) => ({
    language,
    code,
  }))
}

/** The code with the names of the headers that this endpoint gets. */
function withNames(code: string, { id, timestamp, signature }: EndpointSignatureOut['headers'][number]): string {
  return code
    .replaceAll('webhook-id', id)
    .replaceAll('webhook-timestamp', timestamp)
    .replaceAll('webhook-signature', signature)
}

const key = 'sluice.language'

function rememberedLanguage(): string {
  try {
    return localStorage.getItem(key) ?? ''
  } catch {
    return ''
  }
}

function remember(language: string): void {
  try {
    localStorage.setItem(key, language)
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}
