import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { apiRoot } from '../../../src/domain/api.ts'
import { toApiError } from '../api/ask.ts'
import type { ApiError } from '../api/call.ts'
import { Icon, Logo } from '../parts/icon.tsx'
import { Failure, Loading, SearchField } from '../parts/page.tsx'
import { SideButton, SideCover } from '../parts/side.tsx'
import { count } from '../parts/text.ts'
import { chosenTheme, theme } from '../parts/theme.ts'
import { anchorOf, loadReference, type Operation, type Reference, search } from './document.ts'
import { OperationPage } from './operation.tsx'
import { Method, Prose } from './schema.tsx'
import { loadCaller } from './try.tsx'

/** The part of the reference that the address names. */
const place = signal(anchorOf(location.hash.slice(1)))
const isOpen = signal(false)

/** The reference: the operations at the side, and one of them, or the introduction. */
export function ReferencePage() {
  const [reference, setReference] = useState<Reference>()
  const [error, setError] = useState<ApiError>()
  const main = useRef<HTMLElement>(null)
  useEffect(() => {
    loadReference().then(setReference, (reason: unknown) => setError(toApiError(reason)))
    void loadCaller()
    const follow = () => {
      place.value = anchorOf(location.hash.slice(1))
      isOpen.value = false
      scrollTo(0, 0)
      main.current?.focus({ preventScroll: true })
    }
    addEventListener('hashchange', follow)
    addEventListener('keydown', focusSearch)
    return () => {
      removeEventListener('hashchange', follow)
      removeEventListener('keydown', focusSearch)
    }
  }, [])
  const operation = reference?.groups
    .flatMap(({ operations }) => operations)
    .find(({ anchor }) => anchor === place.value)
  useEffect(() => {
    document.querySelector('.side [aria-current]')?.scrollIntoView({ block: 'nearest' })
    document.title = `${operation?.summary ?? 'API reference'} · Sluice`
  }, [operation])
  return (
    <div class="shell docs">
      <button type="button" class="plain skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <header class="topbar">
        <SideButton label="Contents" isOpen={isOpen} />
        <a class="brand" href="#introduction">
          <Logo /> API reference
        </a>
      </header>
      <Side reference={reference} />
      <SideCover isOpen={isOpen} />
      <main id="main" tabIndex={-1} ref={main}>
        {error !== undefined ? (
          <Failure error={error} />
        ) : reference === undefined ? (
          <Loading />
        ) : operation === undefined ? (
          <Introduction reference={reference} />
        ) : (
          <OperationPage key={operation.anchor} operation={operation} reference={reference} />
        )}
      </main>
    </div>
  )
}

/** `/` goes to the search, wherever no text is written. */
function focusSearch(event: KeyboardEvent): void {
  const target = event.target as HTMLElement | null
  if (event.key !== '/' || event.ctrlKey || event.metaKey || target?.closest('input, textarea, select')) return
  event.preventDefault()
  isOpen.value = true
  requestAnimationFrame(() => document.querySelector<HTMLInputElement>('.side .search')?.focus())
}

function Side({ reference }: { reference: Reference | undefined }) {
  const [text, setText] = useState('')
  const found = reference === undefined || text.trim() === '' ? undefined : search(reference, text)
  return (
    <nav class={isOpen.value ? 'side open' : 'side'} aria-label="Operations">
      <a class="brand" href="#introduction">
        <Logo /> API reference
      </a>
      <form
        class="find-operation"
        onSubmit={(event) => {
          event.preventDefault()
          const [first] = found ?? []
          if (first !== undefined) location.hash = first.operationId
        }}
      >
        <SearchField value={text} label="Search operations" onChange={setText} />
        <kbd title="Press / to search">/</kbd>
      </form>
      <div class="contents">
        {found !== undefined ? (
          <>
            <p class="count" role="status">
              {found.length === 0 ? 'No operation has all these words.' : `${found.length} found`}
            </p>
            <Links operations={found} />
          </>
        ) : (
          <>
            <ul>
              <li>
                <a
                  href="#introduction"
                  aria-current={place.value === 'introduction' || place.value === '' ? 'page' : undefined}
                >
                  Introduction
                </a>
              </li>
              <li>
                <a href="#errors" aria-current={place.value === 'errors' ? 'page' : undefined}>
                  Errors
                </a>
              </li>
            </ul>
            {reference?.groups.map(({ name, operations }) => (
              <section key={name} aria-label={name}>
                <h2>{name}</h2>
                <Links operations={operations} />
              </section>
            ))}
          </>
        )}
      </div>
      <div class="foot">
        <a href="/" class="plain">
          <Icon name="overview" /> Dashboard
        </a>
        <button
          type="button"
          class="plain"
          onClick={() => {
            chosenTheme.value = theme.value === 'dark' ? 'light' : 'dark'
          }}
        >
          <Icon name={theme.value === 'dark' ? 'sun' : 'moon'} />
          {theme.value === 'dark' ? 'Light' : 'Dark'}
        </button>
      </div>
    </nav>
  )
}

function Links({ operations }: { operations: readonly Operation[] }) {
  return (
    <ul>
      {operations.map(({ anchor, operationId, method, summary }) => (
        <li key={anchor}>
          <a href={`#${operationId}`} title={summary} aria-current={place.value === anchor ? 'page' : undefined}>
            <Method name={method} />
            <span>{summary}</span>
          </a>
        </li>
      ))}
    </ul>
  )
}

function Introduction({ reference }: { reference: Reference }) {
  const { title, version, description, groups, errors } = reference
  const isErrors = place.value === 'errors'
  useEffect(() => {
    if (isErrors) document.getElementById('errors')?.scrollIntoView()
  }, [isErrors])
  return (
    <article class="page introduction">
      <header class="head">
        <h1>{title}</h1>
        <span class="tag">{version}</span>
      </header>
      <p class="lead">
        <Prose text={description} />
      </p>
      <section>
        <h2>Authentication</h2>
        <p>
          Send <code>Authorization: Bearer &lt;key&gt;</code> with an API key or with a token for one application. Each
          operation names the scope that a key needs: <code>read</code>, <code>publish</code> or <code>admin</code>,
          which includes the other two. Requests from this page use your session of the dashboard, or a key that you
          paste: the page keeps it in memory only.
        </p>
      </section>
      <section>
        <h2>Lists, repeats and errors</h2>
        <p>
          A list takes <code>limit</code>, <code>order</code> and <code>iterator</code>; the answer has the{' '}
          <code>iterator</code> of the next page, and <code>done</code>. A POST with an <code>idempotency-key</code> can
          be repeated: the same key with the same body gets the same answer for a day. An error has a <code>code</code>{' '}
          that does not change, and is <code>application/problem+json</code> where <code>Accept</code> asks for it.
        </p>
        <p>
          This page as data: <a href={`${apiRoot}/openapi.json`}>openapi.json</a>.
        </p>
      </section>
      <section>
        <h2>Operations</h2>
        <dl class="groups">
          {groups.map(({ name, description: text, operations }) => (
            <div key={name}>
              <dt>
                <a href={`#${operations[0]?.operationId ?? ''}`}>{name}</a>
              </dt>
              <dd>
                <Prose text={text} /> <span class="faint">{count(operations.length, 'operation')}</span>
              </dd>
            </div>
          ))}
        </dl>
      </section>
      <section id="errors">
        <h2>Errors</h2>
        <dl class="codes">
          {Object.entries(errors).flatMap(([status, codes]) =>
            codes.map(({ code, remedy }) => (
              <div key={code}>
                <dt>
                  <span class="faint">{status}</span> <code>{code}</code>
                </dt>
                <dd>
                  <Prose text={remedy} />
                </dd>
              </div>
            )),
          )}
        </dl>
      </section>
    </article>
  )
}
