/** What a row of a lane without order, expiry or variants has. */
export const plainRow = { orderKey: null, retryInMs: 0, expiresInMs: null, variant: null } as const
