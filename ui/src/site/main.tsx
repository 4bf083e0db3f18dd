import { render } from 'preact'
import { Icon } from '../parts/icon.tsx'
import { chosenTheme, startTheme, theme } from '../parts/theme.ts'
import { addCopyButtons, makeTabs } from './blocks.ts'
import { Search } from './search.tsx'
import '../style/tokens.css'
import '../style/base.css'
import './site.css'

/** A page of the documentation is whole without this script, which adds the search, the tabs, copying and the theme. */
startTheme()
mount('search', <Search />)
mount('theme', <ThemeButton />)
makeTabs()
addCopyButtons()
addContentsButton()

function mount(id: string, part: preact.ComponentChild): void {
  const place = document.getElementById(id)
  if (place !== null) render(part, place)
}

function ThemeButton() {
  const other = theme.value === 'dark' ? 'light' : 'dark'
  return (
    <button
      type="button"
      class="plain"
      aria-label={`Show the ${other} theme`}
      onClick={() => {
        chosenTheme.value = other
      }}
    >
      <Icon name={theme.value === 'dark' ? 'sun' : 'moon'} />
    </button>
  )
}

/** On a narrow page the contents open by a button. */
function addContentsButton(): void {
  const contents = document.getElementById('contents')
  const bar = document.querySelector('.site-bar')
  if (contents === null || bar === null) return
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'plain contents-button'
  button.setAttribute('aria-controls', 'contents')
  button.setAttribute('aria-expanded', 'false')
  button.textContent = 'Contents'
  button.onclick = () => {
    const isOpen = contents.classList.toggle('open')
    button.setAttribute('aria-expanded', String(isOpen))
  }
  bar.prepend(button)
}
