import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type Answer, ApiError, call, type Input, isDeleting, type OperationName } from './call.ts'

/** An answer as a page shows it: the latest one stays while the next is fetched, so that nothing flickers. */
export interface Asked<T> {
  readonly data: T | undefined
  readonly error: ApiError | undefined
  readonly isLoading: boolean
  /** Fetches again now. */
  refresh(): Promise<void>
}

/** Answers of earlier visits, so that a page that is opened again shows at once. */
const known = new Map<string, unknown>()
const knownLimit = 200

/** Keeps the answer to a GET up to date while the component is shown. A null input asks nothing. */
export function useAsk<Name extends OperationName & `GET ${string}`>(
  operation: Name,
  input: Input<Name> | null,
  everyMs?: number,
): Asked<Answer<Name>> {
  const key = input === null ? '' : `${operation} ${JSON.stringify(input)}`
  const [state, setState] = useState<{ key: string; data?: Answer<Name>; error?: ApiError }>({ key: '' })
  const latest = useRef(key)
  latest.current = key

  const refresh = useCallback(async () => {
    if (key === '') return
    const result = await call(operation, ...([input] as never)).then(
      (data) => ({ key, data }),
      (error: unknown) => ({ key, error: toApiError(error) }),
    )
    if ('data' in result) remember(key, result.data)
    if (latest.current !== key) return
    setState((before) => ('error' in result && before.key === key ? { ...before, ...result } : result))
  }, [key])

  useEffect(() => {
    void refresh()
    return everyMs === undefined ? undefined : repeat(refresh, everyMs)
  }, [refresh, everyMs])

  const data = (state.key === key ? state.data : undefined) ?? (known.get(key) as Answer<Name> | undefined)
  const error = state.key === key ? state.error : undefined
  return { data, error, isLoading: key !== '' && data === undefined && error === undefined, refresh }
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  return new ApiError(0, { detail: error instanceof Error ? error.message : String(error) })
}

function remember(key: string, data: unknown): void {
  known.delete(key)
  known.set(key, data)
  if (known.size > knownLimit) known.delete(known.keys().next().value ?? '')
}

/** Forgets every answer: after signing in as another caller. */
export function forgetAnswers(): void {
  known.clear()
}

/** Calls again and again, each time after the call before has ended, and not while the page is hidden or deletes something. */
export function repeat(work: () => Promise<void>, everyMs: number): () => void {
  let timer = setTimeout(next, everyMs)
  let ended = false
  async function next(): Promise<void> {
    if (document.visibilityState === 'visible' && !isDeleting()) await work()
    if (!ended) timer = setTimeout(next, everyMs)
  }
  return () => {
    ended = true
    clearTimeout(timer)
  }
}

/** A list that grows page by page as the reader scrolls. */
export interface Paged<T> {
  readonly rows: readonly T[]
  readonly done: boolean
  readonly isLoading: boolean
  readonly error: ApiError | undefined
  more(): void
  /** Reads the first page again; rows that were loaded beyond it stay when the first page is the same. */
  refresh(): Promise<void>
}

interface ListPage<T> {
  readonly data: readonly T[]
  readonly iterator: string | null
  readonly done: boolean
}

/** Reads a list by pages. `read` is called again from the first page when `key` changes. */
export function usePages<T>(key: string, read: (iterator: string | undefined) => Promise<ListPage<T>>): Paged<T> {
  type State = { key: string; rows: readonly T[]; iterator?: string; done: boolean; error?: ApiError; busy: boolean }
  const empty: State = { key, rows: [], done: false, busy: true }
  const [state, setState] = useState<State>(empty)
  const latest = useRef({ key, read, state })
  latest.current = { key, read, state }
  // Each reading from the first page replaces those before it, whose answers may come later and be older.
  const reading = useRef(0)

  const load = useCallback(async (iterator: string | undefined) => {
    const asked = latest.current.key
    const mine = iterator === undefined ? ++reading.current : reading.current
    const isOld = () => reading.current !== mine || latest.current.key !== asked
    setState((before) => ({ ...(before.key === asked ? before : { ...empty, key: asked }), busy: true }))
    try {
      const page = await latest.current.read(iterator)
      if (isOld()) return
      setState((before) => ({
        key: asked,
        rows: iterator === undefined ? page.data : [...before.rows, ...page.data],
        ...(page.iterator !== null && { iterator: page.iterator }),
        done: page.done,
        busy: false,
      }))
    } catch (error) {
      if (!isOld()) setState((before) => ({ ...before, key: asked, busy: false, error: toApiError(error) }))
    }
  }, [])

  useEffect(() => void load(undefined), [key])

  const shown = state.key === key ? state : empty
  return {
    rows: shown.rows,
    done: shown.done,
    isLoading: shown.busy,
    error: shown.error,
    more() {
      const { state: current } = latest.current
      if (!current.busy && !current.done && current.error === undefined) void load(current.iterator)
    },
    refresh: () => load(undefined),
  }
}
