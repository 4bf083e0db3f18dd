/** The fields of a row in a lane without order, expiry or variants. */
export const plainRow = { orderKey: null, retryInMs: 0, expiresInMs: null, variant: null } as const
