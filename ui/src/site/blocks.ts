const chosenKey = 'sluice.tab'

/** Makes tabs of the labelled blocks that stand together. A choice holds for all of them, on every page. */
export function makeTabs(): void {
  const groups = [...document.querySelectorAll<HTMLElement>('.tabs')]
  const choose = (label: string) => {
    for (const group of groups) {
      const sections = [...group.querySelectorAll<HTMLElement>(':scope > section')]
      if (!sections.some((section) => section.dataset.label === label)) continue
      for (const section of sections) section.hidden = section.dataset.label !== label
      for (const button of group.querySelectorAll('[role=tab]')) {
        const isChosen = button.textContent === label
        button.setAttribute('aria-selected', String(isChosen))
        ;(button as HTMLElement).tabIndex = isChosen ? 0 : -1
      }
    }
  }
  for (const [at, group] of groups.entries()) {
    const sections = [...group.querySelectorAll<HTMLElement>(':scope > section')]
    const list = document.createElement('div')
    list.setAttribute('role', 'tablist')
    for (const [nth, section] of sections.entries()) {
      const label = section.dataset.label ?? ''
      const button = document.createElement('button')
      button.type = 'button'
      button.id = `tab-${at}-${nth}`
      button.setAttribute('role', 'tab')
      button.textContent = label
      section.id = `panel-${at}-${nth}`
      section.setAttribute('role', 'tabpanel')
      section.setAttribute('aria-labelledby', button.id)
      button.setAttribute('aria-controls', section.id)
      button.onclick = () => {
        choose(label)
        keep(label)
      }
      list.append(button)
    }
    list.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
      if (step === undefined) return
      const buttons = [...list.querySelectorAll('button')]
      const now = buttons.indexOf(document.activeElement as HTMLButtonElement)
      const next = buttons[(now + step + buttons.length) % buttons.length]
      next?.click()
      next?.focus()
    }
    group.prepend(list)
    choose(sections[0]?.dataset.label ?? '')
  }
  const kept = read()
  if (kept !== null) choose(kept)
}

/** A button that copies, at each block of code. */
export function addCopyButtons(): void {
  for (const block of document.querySelectorAll<HTMLElement>('.code-block')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy'
    button.textContent = 'Copy'
    button.onclick = async () => {
      await navigator.clipboard.writeText(block.querySelector('pre')?.textContent ?? '')
      button.textContent = 'Copied'
      setTimeout(() => {
        button.textContent = 'Copy'
      }, 1500)
    }
    block.append(button)
  }
}

function keep(label: string): void {
  try {
    localStorage.setItem(chosenKey, label)
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

function read(): string | null {
  try {
    return localStorage.getItem(chosenKey)
  } catch {
    return null
  }
}
