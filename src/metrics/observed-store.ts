import type { Clock } from '../domain/clock.ts'
import type { Enlisted, Publication, RestingEnd, Settlement, Store } from '../store/store.ts'

/**
 * Follows the commits of this process. Each method is called once the store has answered, so that counts made here are
 * those of the store: a publish that was refused and a settlement that was fenced are never reported. The methods run on
 * the way of every delivery: they add to numbers in memory, and do nothing else.
 */
export interface CommitObserver {
  /**
   * A message was stored. `merged` lists endpoints at which its delivery replaced a waiting one, or was replaced. A message
   * within a transaction of the caller is reported when the caller reports the commit.
   */
  accepted?(publication: Publication, merged: readonly number[]): void
  /** Deliveries of a wide message replaced waiting ones, or were replaced, when they were queued after its commit. */
  coalesced?(app: number, endpoints: readonly number[]): void
  /** A message was not stored, because an earlier one stands for it. */
  repeated?(publication: Publication): void
  /** Attempts and verdicts were recorded. */
  settled?(settlements: readonly Settlement[]): void
  /** Deliveries ended without an attempt, in lanes without an owner. */
  ended?(ends: readonly RestingEnd[]): void
  /** Deliveries ended because their endpoint or application was deleted. */
  cancelled?(count: number): void
  /** The store took this long for a group of publishes, or for a batch of settlements. */
  took?(what: 'publish' | 'settle', ms: number): void
}

const none: readonly number[] = []

/** The store, which reports its commits to the observers. */
export function observed(store: Store, clock: Clock, observers: readonly CommitObserver[]): Store {
  const accepted = (publication: Publication, merged = none) => {
    for (const each of observers) each.accepted?.(publication, merged)
  }
  const repeated = (publication: Publication) => {
    for (const each of observers) each.repeated?.(publication)
  }
  const took = (what: 'publish' | 'settle', since: number) => {
    const ms = clock.steady() - since
    for (const each of observers) each.took?.(what, ms)
  }
  return {
    ...store,
    async publish(publications) {
      const since = clock.steady()
      const answers = await store.publish(publications)
      if (publications.length > 0) took('publish', since)
      for (let i = 0; i < answers.length; i++) {
        const answer = answers[i]
        if (answer?.state === 'accepted') accepted(publications[i] as Publication, answer.merged)
        else if (answer?.state === 'repeated') repeated(publications[i] as Publication)
      }
      return answers
    },
    async publishTogether(publications, once) {
      const since = clock.steady()
      const answer = await store.publishTogether(publications, once)
      took('publish', since)
      if (answer.state !== 'accepted' && answer.state !== 'repeated') return answer
      for (const [i, message] of answer.messages.entries()) {
        const publication = publications[i] as Publication
        if (answer.state === 'repeated' || message.repeated) repeated(publication)
        else accepted(publication, message.merged)
      }
      return answer
    },
    publishWithin(connection, ref, match) {
      let publication: Publication | undefined
      const answer = store.publishWithin(connection, ref, (application, subscriptions) => {
        publication = match(application, subscriptions)
        return publication
      })
      const report = (enlisted: Enlisted | undefined): Enlisted | undefined => {
        if (enlisted?.published.state !== 'accepted') return enlisted
        let reported = false
        return {
          ...enlisted,
          committed() {
            if (!reported && publication !== undefined) accepted(publication)
            reported = true
            enlisted.committed()
          },
        }
      }
      return answer instanceof Promise ? answer.then(report) : report(answer)
    },
    async advanceSchedule(schedule, step) {
      const answer = await store.advanceSchedule(schedule, step)
      if (step.publication !== null && answer.state === 'accepted') accepted(step.publication, answer.merged)
      return answer
    },
    async expand(limit) {
      const expansion = await store.expand(limit)
      for (const { app, endpoints } of expansion.merged) {
        for (const each of observers) each.coalesced?.(app, endpoints)
      }
      return expansion
    },
    async settle(worker, settlements, effects) {
      const since = clock.steady()
      const answer = await store.settle(worker, settlements, effects)
      if (answer === 'fenced') return answer
      took('settle', since)
      for (const each of observers) each.settled?.(settlements)
      return answer
    },
    async endResting(ends) {
      const ended = await store.endResting(ends)
      if (ended.length > 0) for (const each of observers) each.ended?.(ended)
      return ended
    },
    async sweepRemoved() {
      const swept = await store.sweepRemoved()
      if (swept.cancelled > 0) for (const each of observers) each.cancelled?.(swept.cancelled)
      return swept
    },
  }
}
