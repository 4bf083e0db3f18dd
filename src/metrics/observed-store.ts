import type { Clock } from '../domain/clock.ts'
import type { Enlisted, Publication, RestingEnd, Settlement, Store } from '../store/store.ts'

/**
 * Follows the commits of this process. Each method but `storing` is called once the store has answered, so that counts
 * made here are those of the store: a publish that was refused and a settlement that was fenced are never reported. The methods run on
 * the way of every delivery: they add to numbers in memory, and do nothing else.
 */
export interface CommitObserver {
  /** Messages are being stored: their deliveries may be in the queues from now on. An answer follows for each. */
  storing?(publications: readonly Publication[]): void
  /** A message that was being stored was refused, or it is not known whether it was. */
  unstored?(publication: Publication): void
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
  /** Queues changed in a way that is not told delivery by delivery: those of these endpoints, or any without a list. */
  changed?(endpoints?: readonly number[]): void
  /** The store took this long for a group of publishes, or for a batch of settlements. */
  took?(what: 'publish' | 'settle', ms: number): void
}

const none: readonly number[] = []

/** The store, which reports its commits to the observers. */
export function observed(store: Store, clock: Clock, observers: readonly CommitObserver[]): Store {
  const storing = (publications: readonly Publication[]) => {
    for (const each of observers) each.storing?.(publications)
  }
  const accepted = (publication: Publication, merged = none) => {
    for (const each of observers) each.accepted?.(publication, merged)
  }
  const unstored = (publication: Publication) => {
    for (const each of observers) each.unstored?.(publication)
  }
  const repeated = (publication: Publication) => {
    unstored(publication)
    for (const each of observers) each.repeated?.(publication)
  }
  const changed = (endpoints?: readonly number[]) => {
    for (const each of observers) each.changed?.(endpoints)
  }
  const took = (what: 'publish' | 'settle', since: number) => {
    const ms = clock.steady() - since
    for (const each of observers) each.took?.(what, ms)
  }
  /**
   * The answer to a publish. On SQLite its rows are in the queues as soon as the call returns, before they are on disk, so that
   * a count of the queues may see them from then on.
   */
  async function stored<A>(publications: readonly Publication[], answering: Promise<A>): Promise<A> {
    storing(publications)
    try {
      return await answering
    } catch (error) {
      for (const publication of publications) unstored(publication)
      changed()
      throw error
    }
  }
  return {
    ...store,
    async publish(publications) {
      const since = clock.steady()
      const answers = await stored(publications, store.publish(publications))
      if (publications.length > 0) took('publish', since)
      for (let i = 0; i < publications.length; i++) {
        const answer = answers[i]
        if (answer?.state === 'accepted') accepted(publications[i] as Publication, answer.merged)
        else if (answer?.state === 'repeated') repeated(publications[i] as Publication)
        else unstored(publications[i] as Publication)
      }
      return answers
    },
    async publishTogether(publications, once) {
      const since = clock.steady()
      const answer = await stored(publications, store.publishTogether(publications, once))
      took('publish', since)
      if (answer.state !== 'accepted' && answer.state !== 'repeated') {
        for (const publication of publications) unstored(publication)
        return answer
      }
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
        if (enlisted?.published.state !== 'accepted' || publication === undefined) return enlisted
        const { endpoints } = publication
        // It may be undone yet, and no call will say so: the next count of the queues shows it.
        storing([publication])
        let reported = false
        return {
          ...enlisted,
          committed() {
            if (!reported && publication !== undefined) accepted(publication)
            if (!reported) changed(endpoints)
            reported = true
            enlisted.committed()
          },
        }
      }
      return answer instanceof Promise ? answer.then(report) : report(answer)
    },
    async advanceSchedule(schedule, step) {
      const { publication } = step
      const publications = publication === null ? [] : [publication]
      const answer = await stored(publications, store.advanceSchedule(schedule, step))
      if (publication !== null && answer.state === 'accepted') accepted(publication, answer.merged)
      else if (publication !== null) unstored(publication)
      return answer
    },
    async expand(limit) {
      const expansion = await store.expand(limit)
      for (const { app, endpoints } of expansion.merged) {
        for (const each of observers) each.coalesced?.(app, endpoints)
      }
      if (expansion.more) changed()
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
    async replay(deliveries) {
      const queued = await store.replay(deliveries)
      if (queued.length > 0) changed(deliveries.map(({ endpoint }) => endpoint))
      return queued
    },
    async advanceTask(task, step) {
      const done = await store.advanceTask(task, step)
      if (step.replay.length > 0) changed([...new Set(step.replay.map(({ endpoint }) => endpoint))])
      else if (step.erase !== undefined && step.erase.length > 0) changed()
      return done
    },
    async expungeMessages(messages) {
      await store.expungeMessages(messages)
      changed()
    },
    watch(watcher) {
      store.watch({
        ...watcher,
        // Another process wrote, and does not say what.
        rows(endpoints, itsClass) {
          if (endpoints === undefined) changed()
          watcher.rows(endpoints, itsClass)
        },
      })
    },
  }
}
