export { type ErrorCode, errorStatus, ReceiverError, SecretError, SignatureError } from './errors.ts'
export {
  type HeaderFamily,
  type OwnNames,
  type SignatureHeaders,
  type SignatureProfile,
  signatureProfiles,
} from './names.ts'
export {
  type Claim,
  handleOnce,
  type MemoryStoreOptions,
  memoryStore,
  type OnceOptions,
  type OnceStore,
  type Outcome,
  type Transaction,
} from './once.ts'
export { openReceiver, type Receiver, type ReceiverOptions, type Webhook } from './receive.ts'
export {
  defaultToleranceSeconds,
  idOf,
  openVerifier,
  type Received,
  type ReceivedHeaders,
  type Verified,
  type Verifier,
  type VerifierOptions,
} from './verify.ts'
