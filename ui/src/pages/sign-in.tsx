import { useEffect, useState } from 'preact/hooks'
import { toApiError } from '../api/ask.ts'
import { Button } from '../parts/button.tsx'
import { Logo } from '../parts/icon.tsx'
import { signInWithKey } from '../session.ts'

/** The page of a caller that the server does not know. */
export function SignInPage({ note }: { note?: string | undefined }) {
  const [refusal, setRefusal] = useState('')
  // The note may come after the page: the server is asked first whether a link works.
  const problem = refusal || (note ?? '')
  useEffect(() => {
    document.title = 'Sign in · Sluice'
  }, [])
  return (
    <main class="sign-in">
      <div class="box">
        <Logo />
        <h1>Sign in to Sluice</h1>
        <p class="soft">
          Paste an API key, or open the link that the server printed at its start. <code>npx sluice dashboard</code>{' '}
          prints a new link.
        </p>
        <form
          onSubmit={async (event) => {
            event.preventDefault()
            const key = new FormData(event.currentTarget).get('key')
            try {
              await signInWithKey(String(key).trim())
            } catch (error) {
              setRefusal(toApiError(error).message)
            }
          }}
        >
          <label class="field">
            <span class="label">API key</span>
            <input name="key" type="password" required autocomplete="current-password" placeholder="sk_…" autofocus />
          </label>
          {problem !== '' && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
          <Button type="submit" kind="primary">
            Sign in
          </Button>
        </form>
      </div>
    </main>
  )
}
