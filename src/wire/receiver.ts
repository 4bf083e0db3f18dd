/**
 * The parts of the package `@sluice/receiver` that Sluice uses itself: the names of signature headers, and verifying. No
 * other file of src imports them. The published package has no dependency on `@sluice/receiver`: `scripts/build.ts` compiles
 * these modules into `dist/receiver`.
 */
export { SecretError, SignatureError } from '../../receiver/src/errors.ts'
export { headerNames, olderHeader, type PartNames, signatureProfiles } from '../../receiver/src/names.ts'
export { idOf, openVerifier, type ReceivedHeaders, type Verifier } from '../../receiver/src/verify.ts'
