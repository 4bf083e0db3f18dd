import { isSame } from '../domain/field.ts'
import type { CompleteEndpoint, Endpoint } from '../features/endpoints/rules.ts'
import { mergedHeaders } from '../wire/headers.ts'
import type { Target } from './send.ts'

/**
 * The target of an endpoint, of the kind `http`: where requests go, how they are signed and what they carry. The engine knows of a
 * destination its key, its limits and the outcome of an attempt; everything else about its kind is in this folder.
 */
export function targetOf(endpoint: CompleteEndpoint, shape: Target['shape']): Target {
  const { url, method, secrets, headers, auth, clientCertificate, timeoutMs, connectTimeoutMs } = endpoint
  return {
    ...{ url, method, secrets, headers, auth, timeoutMs, connectTimeoutMs },
    clientCertificates: clientCertificate,
    damaged: endpoint.damaged !== undefined,
    signature: endpoint.flow.signature,
    signatureHeaders: endpoint.appSettings?.signatureHeaders ?? null,
    egressProxy: endpoint.flow.egressProxy,
    region: endpoint.region,
    endpointId: endpoint.id,
    headerTemplates: mergedHeaders(endpoint.appSettings?.headerTemplates ?? {}, endpoint.flow.headerTemplates ?? {}),
    shape,
  }
}

/** Whether connections that are open stay of use after a change: they have shown the receiver who calls. */
export function keepsConnections(before: Endpoint, after: Endpoint): boolean {
  return isSame(before.clientCertificate, after.clientCertificate)
}
