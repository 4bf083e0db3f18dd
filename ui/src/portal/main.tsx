import { render } from 'preact'
import { startTheme } from '../parts/theme.ts'
import { startRouter } from '../router.ts'
import { Portal } from './portal.tsx'
import { startPortalSession } from './portal-session.ts'
import '../style/tokens.css'
import '../style/base.css'
import '../style/shell.css'
import '../style/parts.css'
import '../style/pages.css'
import '../style/portal.css'

startTheme()
startRouter((to) => /^\/portal(\/|\?|$)/.test(to))
void startPortalSession()
// Another link in the same tab is another session.
addEventListener('hashchange', () => void startPortalSession())
const root = document.getElementById('root')
if (root !== null) render(<Portal />, root)
