import { batchLimits, type Scanner } from '../json/scan.ts'
import { Authenticator } from './auth.ts'
import type { Context } from './context.ts'
import { Explainer } from './explainer.ts'
import { openApiDocument } from './openapi/document.ts'
import type { Parts } from './route.ts'

/** Makes what handlers work with. A server and the program around it share one, so that each sees a revoked key at once. */
export function partsOf(context: Context): Parts {
  let batchScanner: Scanner | undefined
  let reference: Buffer | undefined
  return {
    ...context,
    auth: new Authenticator(context),
    explainer: new Explainer(context.store, context.clock),
    batchScanner: () => {
      batchScanner ??= context.scanner.sized(batchLimits)
      return batchScanner
    },
    reference: () => {
      reference ??= Buffer.from(JSON.stringify(openApiDocument()))
      return reference
    },
  }
}
