import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { openParts } from '../../src/compose/parts.ts'
import { diagnose } from '../../src/features/doctor/diagnosis.ts'
import { type DoctorLimits, doctorLimits, type Finding } from '../../src/features/doctor/facts.ts'
import { inProcess, type Request } from '../../src/operations/in-process.ts'
import type { Services } from '../../src/operations/services.ts'
import { configOf } from '../../src/runtime/config.ts'
import { openLog } from '../../src/runtime/log.ts'
import type { Store } from '../../src/store/store.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { openPlace, type Place } from '../e2e/place.ts'
import { Receiver } from '../e2e/receiver.ts'
import { testEncryptionKey } from '../store/test-vault.ts'

export const dialects = ['sqlite', 'postgres'] as const
export type Dialect = (typeof dialects)[number]

/** Half a second stands for a minute, and a machine that is busy with other tests has no slow store. */
export const soon: DoctorLimits = {
  ...doctorLimits,
  behindMs: 500,
  stuckMs: 500,
  slowCommitMs: Number.POSITIVE_INFINITY,
  clockMs: 30_000,
}

/** The whole program over a real store and a real receiver, in this process. */
export interface Scene {
  readonly place: Place
  readonly store: Store
  readonly services: Services
  readonly receiver: Receiver
  readonly ask: Request
  /** Starts a worker. */
  work(): Promise<void>
  /** Makes an endpoint of `acme` for the path `/uid` of the receiver. */
  endpoint(uid: string, fields?: object): Promise<void>
  publish(times?: number, channels?: readonly string[]): Promise<void>
  findings(limits?: DoctorLimits): Promise<readonly Finding[]>
  /** Waits until the findings have exactly these codes, and answers them. */
  finds(codes: readonly string[], limits?: DoctorLimits): Promise<readonly Finding[]>
}

export async function scene(t: TestContext, dialect: Dialect, settings: object = {}, given?: Place): Promise<Scene> {
  const place = given ?? (await openPlace(t, dialect))
  const receiver = await Receiver.listen(t)
  const config = configOf({
    store: place.store,
    encryptionKey: testEncryptionKey,
    allowNetworks: ['127.0.0.0/8'],
    logLevel: 'silent',
    failuresPerMinute: 0,
    ...settings,
  })
  const parts = await openParts(config, openLog(config))
  atEnd(t, () => parts.store.close())
  const services = parts.services()
  const ask = inProcess(services)
  await ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  const findings = async (limits: DoctorLimits = soon) => {
    const found = diagnose(await services.doctor.facts(), limits)
    assert.equal(found.more, 0)
    return found.findings
  }
  return {
    place,
    store: parts.store,
    services,
    receiver,
    ask,
    async work() {
      const delivering = await parts.startDelivering('a test')
      atEnd(t, () => delivering.stop(0))
    },
    async endpoint(uid, fields = {}) {
      await ask('POST', '/app/acme/endpoint', { url: `${receiver.url}/${uid}`, uid, ...fields })
    },
    async publish(times = 1, channels) {
      const message = { eventType: 'x.y', payload: { n: 1 }, ...(channels && { channels }) }
      await Promise.all(Array.from({ length: times }, () => ask('POST', '/app/acme/msg', message)))
    },
    findings,
    async finds(codes, limits) {
      let last: readonly Finding[] = []
      try {
        return await eventually(
          `the findings ${codes.join(', ')}`,
          async () => {
            last = await findings(limits)
            return last.map(({ code }) => code).join() === codes.join() && last
          },
          60_000,
        )
      } catch (error) {
        throw new Error(`${(error as Error).message}; the last were ${JSON.stringify(last, null, 1)}`)
      }
    },
  }
}

/** A receiver's answer that never comes while the test runs. */
export const never = new Promise<{ status: number }>(() => {})

/** A receiver that answers after a while. */
export function after(ms: number): () => Promise<{ status: number }> {
  return () => new Promise((resolve) => setTimeout(() => resolve({ status: 200 }), ms))
}

/** The only finding. */
export function only(findings: readonly Finding[]): Finding {
  assert.equal(findings.length, 1)
  return findings[0] as Finding
}
