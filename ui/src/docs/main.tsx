import { render } from 'preact'
import { startTheme } from '../parts/theme.ts'
import { ReferencePage } from './reference.tsx'
import '../style/tokens.css'
import '../style/base.css'
import '../style/shell.css'
import '../style/parts.css'
import './docs.css'

startTheme()
const root = document.getElementById('root')
if (root !== null) render(<ReferencePage />, root)
