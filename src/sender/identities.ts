import type { EpochMs } from '../domain/clock.ts'
import { type ClientCertificate, type ClientCertificates, usableCertificates } from '../domain/credentials.ts'
import type { Origin } from './connect.ts'

/** A receiver that refused a certificate is not shown it for this long, while another one can be used. */
const refusedMs = 60_000

/**
 * The client certificates of a target, as an origin for each. While two overlap, the older one is shown to a receiver
 * that refuses the newer one.
 */
export class Identities {
  readonly #certificates: ClientCertificates
  readonly #origins: ReadonlyMap<ClientCertificate, Origin>
  #refused: Origin | undefined
  #refusedUntil: EpochMs = 0

  constructor(plain: Origin, certificates: ClientCertificates) {
    this.#certificates = certificates
    this.#origins = new Map(
      certificates.map((each) => [
        each,
        {
          ...plain,
          key: `${plain.key}#${each.fingerprint}`,
          identity: { certificate: each.certificate, key: each.key },
        },
      ]),
    )
  }

  /** The origins of all certificates. */
  get all(): Iterable<Origin> {
    return this.#origins.values()
  }

  /** The origin to connect to now. */
  origin(now: EpochMs): Origin {
    const usable = this.#usable(now)
    const isRefused = now < this.#refusedUntil
    const found = usable.find((each) => !isRefused || each !== this.#refused) ?? usable[0]
    // The last certificate is never replaced, so there is always one.
    return found as Origin
  }

  /** The receiver refused the certificate of an origin, or may have: the origin to try instead, if there is another. */
  refuse(origin: Origin, now: EpochMs): Origin | undefined {
    const other = this.#usable(now).find((each) => each !== origin)
    if (other === undefined) return undefined
    this.#refused = origin
    this.#refusedUntil = now + refusedMs
    return other
  }

  #usable(now: EpochMs): Origin[] {
    return usableCertificates(this.#certificates, now).map((each) => this.#origins.get(each) as Origin)
  }
}
