import { h, render } from 'preact'

render(h('h1', null, 'Sluice'), document.getElementById('root') as HTMLElement)
