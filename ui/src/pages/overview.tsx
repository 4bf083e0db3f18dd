import { useAsk } from '../api/ask.ts'
import { Page } from '../parts/page.tsx'
import { Findings } from './findings.tsx'

/** What is wrong, since when, whose fault, what to press. */
export function OverviewPage() {
  const doctor = useAsk('GET /doctor', {}, 5000)
  return (
    <Page title="Overview">
      <Findings doctor={doctor} />
    </Page>
  )
}
