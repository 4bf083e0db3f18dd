import { useMemo } from 'preact/hooks'
import { call } from '../api/call.ts'
import { Empty, Page } from '../parts/page.tsx'
import { say } from '../parts/toast.tsx'
import { navigate } from '../router.ts'
import { mayManage } from '../session.ts'
import { EndpointForm } from './endpoint-form.tsx'
import { ownApp } from './portal-session.ts'

const nothing = { url: '', description: '', eventTypes: null, throttleRate: null }

/** Adds an endpoint, step by step. */
export function NewEndpointPage() {
  const secret = useMemo(makeSecret, [])
  const up = [['Endpoints', '/portal']] as const
  if (!mayManage()) {
    return (
      <Page title="Add endpoint" up={up}>
        <Empty title="This link may only look">Ask for a link that may change endpoints.</Empty>
      </Page>
    )
  }
  return (
    <Page title="Add endpoint" up={up}>
      <EndpointForm
        values={nothing}
        secret={secret}
        action="Add endpoint"
        onCancel={() => navigate('/portal')}
        onSave={async ({ url, description, eventTypes, throttleRate }) => {
          const { id } = await call('POST /app/{app_id}/endpoint', {
            path: { app_id: ownApp() },
            body: { url, description, throttleRate, secret, eventTypes: eventTypes && [...eventTypes] },
          })
          say('The endpoint is added.')
          navigate(`/portal/endpoint/${id}`)
        }}
      />
    </Page>
  )
}

/** Made here, so that a test before saving is signed as deliveries will be. */
function makeSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(24))
  return `whsec_${btoa(String.fromCharCode(...bytes))}`
}
