import type { Flow } from './flow.ts'

/** The part of an endpoint that decides which messages it gets. `null` means no restriction. */
export interface Subscription {
  readonly endpoint: number
  /** Names by which a message can be sent to the endpoint alone. */
  readonly id?: string
  readonly uid?: string | null
  readonly eventTypes: readonly string[] | null
  readonly channels: readonly string[] | null
  /** Missing for the default treatment. */
  readonly treatment?: Treatment
}

/**
 * Every pattern that matches an event type: `video.trending.eu` is matched by `*`, `video.*`, `video.trending.*` and
 * itself. Patterns are then compared by equality, so matching costs the depth of the name, not the number of patterns.
 */
export function patternsFor(eventType: string): string[] {
  const patterns = ['*', eventType]
  for (let dot = eventType.indexOf('.'); dot >= 0; dot = eventType.indexOf('.', dot + 1)) {
    patterns.push(`${eventType.slice(0, dot)}.*`)
  }
  return patterns
}

/** Whether one of the patterns of a filter matches an event type; null is no filter. */
export function isMatched(eventType: string, patterns: readonly string[] | null | undefined): boolean {
  return patterns == null || patternsFor(eventType).some((pattern) => patterns.includes(pattern))
}

/** Whether a text is a pattern an endpoint may subscribe with: a name, `*`, or a name followed by `.*`. */
export function isPattern(text: string): boolean {
  return text === '*' || /^[a-zA-Z0-9\-_]+(\.[a-zA-Z0-9\-_]+)*(\.\*)?$/.test(text)
}

/** An application's subscriptions, indexed for matching: built once per change of its endpoints, used once per message. */
export class Matcher {
  readonly #byPattern = new Map<string, Subscription[]>()
  readonly #subscriptions: readonly Subscription[]
  /** Made when a message first names its endpoint. */
  #byName: Map<string, number> | undefined

  constructor(subscriptions: readonly Subscription[]) {
    this.#subscriptions = subscriptions
    for (const subscription of subscriptions) {
      for (const pattern of new Set(subscription.eventTypes ?? ['*'])) {
        const list = this.#byPattern.get(pattern)
        if (list) list.push(subscription)
        else this.#byPattern.set(pattern, [subscription])
      }
    }
  }

  /** The endpoints that get a message of this type sent on these channels, each once. */
  match(eventType: string, channels: readonly string[] | null): number[] {
    const found = new Set<number>()
    for (const pattern of patternsFor(eventType)) {
      for (const subscription of this.#byPattern.get(pattern) ?? []) {
        if (meets(subscription.channels, channels)) found.add(subscription.endpoint)
      }
    }
    return [...found]
  }

  /** The endpoint with this id or uid, whatever it subscribes to; undefined when there is none. */
  named(ref: string): number | undefined {
    this.#byName ??= new Map(
      this.#subscriptions.flatMap(({ endpoint, id, uid }) =>
        [id, uid].flatMap((name) => (name == null ? [] : [[name, endpoint] as const])),
      ),
    )
    return this.#byName.get(ref)
  }
}

/** An endpoint with channels gets only messages sent on one of them. */
function meets(wanted: readonly string[] | null, sent: readonly string[] | null): boolean {
  if (wanted === null) return true
  return sent?.some((channel) => wanted.includes(channel)) ?? false
}

/** How messages are treated at publish for an endpoint whose flow is not the default one. */
export interface Treatment {
  /** The endpoint's id. */
  readonly id: string
  readonly flow: Flow
  readonly disabled: boolean
  /** The newest secret, for profiles that sign at publish; null when there is none, or it cannot be read. */
  readonly secret: string | null
  /** The secret of the endpoint's region; null without one, or when it cannot be read. */
  readonly regionSecret: string | null
}
