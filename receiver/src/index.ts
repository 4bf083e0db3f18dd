export { type ErrorCode, errorStatus, ReceiverError, SecretError, SignatureError } from './errors.ts'
export {
  type HeaderFamily,
  type OwnNames,
  type SignatureHeaders,
  type SignatureProfile,
  signatureProfiles,
} from './names.ts'
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
