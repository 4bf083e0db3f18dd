import type { AppErrorCode } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { SignatureFamily, SignatureHeaders } from '../features/applications/noun.ts'
import { type ArrivalLimits, Arrivals, type OnArrival } from '../features/arrivals/service.ts'
import type { ClientCertificates, EndpointAuth } from '../features/credentials/rules.ts'
import { Doctor } from '../features/doctor/service.ts'
import type { ServerDefaults } from '../features/endpoints/rules.ts'
import { Live, type LiveSources } from '../features/live/service.ts'
import { Reference } from '../features/reference/service.ts'
import { Explainer } from '../features/why/service.ts'
import type { Publisher } from '../intake/publisher.ts'
import { batchLimits, type Scanner } from '../json/scan.ts'
import { Facts } from '../metrics/facts.ts'
import { Ledger } from '../metrics/ledger.ts'
import { type FetchKeys, KeySets } from '../sources/key-sets.ts'
import { type Store, StoreTrouble } from '../store/store.ts'
import { Authenticator } from './auth.ts'
import { OneByOne } from './caller-limits.ts'
import type { UnknownFields } from './unknown-names.ts'

/** The parts of the program that the operations work with. */
export interface ServiceDeps {
  readonly store: Store
  readonly publisher: Publisher
  readonly scanner: Scanner
  readonly clock: Clock
  readonly randomBytes: (length: number) => Uint8Array
  readonly randomText: RandomText
  /** Everything wrong with an endpoint's URL, as sentences. */
  readonly checkUrl: (url: string) => readonly string[]
  /** A key admitted beside those in the store. */
  readonly adminKey: string | null
  /** The URL of this server for its users; null for the host that a request names. */
  readonly publicUrl: string | null
  readonly bodyLimitBytes: number
  readonly serverDefaults: ServerDefaults
  /** Names of the signature headers where an application sets none. */
  readonly signatureHeaders: SignatureFamily
  /** Makes one attempt at a URL that is no endpoint yet. */
  readonly tryOnce: (trial: Trial) => Promise<Outcome>
  /** Fetches the public keys (JWKS) of a provider, through the address guard. */
  readonly fetchKeys: FetchKeys
  readonly limits: Limits
  /** The settings of this process as texts, with their origins. */
  readonly settings: () => readonly ShownSetting[]
  /** Where the figures of the live stream come from. */
  readonly liveSources: LiveSources
  /** The version of this program. */
  readonly version: string
  /** Logs an error that no caller can have caused. */
  readonly onBug: (error: unknown) => void
  /** Counts a refused publish by the code of its error. */
  readonly onRefusedPublish?: (code: AppErrorCode | 'internal') => void
  /** Counts an arrival at a source. */
  readonly onArrival?: OnArrival
  /** Publishes a second that load shedding refused recently, in this process. */
  readonly shedPerSecond?: () => number
}

/** An attempt apart from all endpoints and queues. */
export interface Trial {
  readonly url: string
  readonly secret: string
  readonly auth: EndpointAuth | null
  readonly clientCertificate: ClientCertificates | null
  readonly timeoutMs: number
  /** Null for the names that the server sets. */
  readonly signatureHeaders: SignatureHeaders | null
  readonly message: { readonly id: string; readonly eventType: string; readonly body: Uint8Array }
}

/** A setting as an operator sees it: secrets are masked. */
interface ShownSetting {
  readonly name: string
  readonly value: string
  /** Such as `default` or `environment SLUICE_LISTEN`. */
  readonly origin: string
  readonly flag: string
  readonly variable: string
  readonly help: string
}

/** Settings that refusals mention by these names: mostly how many of a kind may exist. */
export interface Limits extends ArrivalLimits {
  readonly maxEndpointsPerApp: number
  readonly maxEventTypesPerEndpoint: number
  readonly maxSchedulesPerApp: number
  readonly maxSourcesPerApp: number
  readonly checkEventTypes: 'always' | 'never' | null
  readonly unknownFields: UnknownFields
  readonly maxWaiting: number
  readonly maxWaitingPerApp: number
  readonly maxWaitingPerEndpoint: number
  /** How long a browser stays signed in. */
  readonly sessionLifetime: number
  /** Live streams in all, and of one key or token. */
  readonly maxLive: number
  readonly maxLivePerKey: number
}

/** Everything that handlers work with. */
export interface Services extends ServiceDeps {
  readonly auth: Authenticator
  /** How many deliveries wait. */
  readonly ledger: Ledger
  readonly arrivals: Arrivals
  readonly explainer: Explainer
  readonly doctor: Doctor
  readonly live: Live
  /** Histories that are read, by caller. */
  readonly histories: OneByOne
  /** Checks batches. It has tables of several megabytes, so it is made when the first batch comes. */
  readonly batchScanner: () => Scanner
  readonly reference: Reference
}

/** Makes the parts. A server and the program around it share them, so that each sees a revoked key at once. */
export function servicesOf(
  deps: ServiceDeps,
  given?: Pick<Facts, 'current'>,
  ledger: Ledger = ledgerOver(deps),
): Services {
  const facts = given ?? new Facts({ ...deps, ledger, onTrouble: deps.onBug })
  let batchScanner: Scanner | undefined
  // Trouble of the store is logged where the store is opened.
  const onTrouble = (error: unknown) => {
    if (!(error instanceof StoreTrouble)) deps.onBug(error)
  }
  const auth = new Authenticator(deps)
  const explainer = new Explainer(deps.store, deps.clock, deps.serverDefaults, ledger)
  return {
    ...deps,
    auth,
    ledger,
    arrivals: new Arrivals({ ...deps, keySets: new KeySets(deps.fetchKeys), onTrouble }),
    explainer,
    live: new Live({ ...deps, ...deps.liveSources, facts, auth, explainer }),
    doctor: new Doctor({ ...deps, explainer, ledger, facts }),
    histories: new OneByOne(),
    batchScanner: () => {
      batchScanner ??= deps.scanner.sized(batchLimits)
      return batchScanner
    },
    reference: new Reference(),
  }
}

/** The ledger of a program that has none: it counts when it is asked. */
function ledgerOver({ store, clock, onBug }: ServiceDeps): Ledger {
  // Trouble of the store is logged where the store is opened.
  const onTrouble = (error: unknown) => {
    if (!(error instanceof StoreTrouble)) onBug(error)
  }
  return new Ledger({ store, clock, othersWrite: true, onTrouble })
}
