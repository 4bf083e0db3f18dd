import { Type } from 'typebox'

/** What lets somebody into an application's portal. */
export const AppPortalAccessOut = Type.Object({ url: Type.String(), token: Type.String() })
