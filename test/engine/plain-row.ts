/** What a row of a lane without order, expiry or variants has. */
export const plainRow = { orderKey: null, heldMs: 0, expiresInMs: null, variant: null } as const
