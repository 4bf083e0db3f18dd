/** What a dead letter says of its last attempt when it ended without being tried. */
export const untried = { status: 0, code: 'untried', error: null, response: null } as const
