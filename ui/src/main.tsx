import { render } from 'preact'
import { Dashboard } from './pages/dashboard.tsx'
import { startTheme } from './parts/theme.ts'
import { startRouter } from './router.ts'
import { startSession } from './session.ts'
import './style/tokens.css'
import './style/base.css'
import './style/shell.css'
import './style/parts.css'
import './style/pages.css'

startTheme()
startRouter()
void startSession()
// A sign-in link in a tab that shows this page already changes the hash alone.
addEventListener('hashchange', () => {
  if (location.hash.startsWith('#signin=')) void startSession()
})
const root = document.getElementById('root')
if (root !== null) render(<Dashboard />, root)
