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
const root = document.getElementById('root')
if (root !== null) render(<Dashboard />, root)
