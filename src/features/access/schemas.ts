import { type Static, Type } from 'typebox'
import {
  admin,
  attempt,
  type Caller,
  capabilities,
  changeSecret,
  isReadOnly,
  manage,
  mayCall,
  type Need,
  publish,
  viewSecret,
} from '../../operations/access.ts'
import { fixedCaller, hashApiKey, makeToken } from '../../operations/auth.ts'
import { closed, flag, integer, maybe, namePattern, nullable, shortText, text } from '../../operations/fields.ts'
import type { Incoming, Out } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { Application } from '../applications/noun.ts'
import { ApplicationIn } from '../applications/schemas.ts'

export const week = 7 * 24 * 3600

const defaultExpirySeconds = 3600

export const sessionId = shortText(256)

export const AppPortalAccessIn = Type.Object(
  {
    application: maybe(
      ApplicationIn,
      'Creates the application with this under the uid in the path, if it does not exist.',
    ),
    capabilities: maybe(
      Type.Array(Type.Enum([...capabilities]), {
        minItems: 1,
        uniqueItems: true,
        description: "Capabilities of the token, by Svix's names; everything in its application by default.",
      }),
    ),
    readOnly: maybe(flag('Read-only: the same as the one capability `ViewBase`.')),
    expiry: maybe(integer(60, week), 'Seconds from now.'),
    sessionId: maybe(sessionId, 'Name by which this token can be ended, together with others.'),
    featureFlags: Type.Optional(
      Type.Array(Type.String({ maxLength: 256, pattern: namePattern }), {
        maxItems: 100,
        description: 'The token sees event types without feature flags, and those with one of these.',
      }),
    ),
  },
  closed,
)

export const AppPortalAccessOut = Type.Object({
  url: text('Link to the portal; the token follows the `#`.'),
  token: text('Token in the link.'),
})

export const AccessOut = Type.Object({
  id: text('Id of the key or token.'),
  appId: nullable(text('Application of the token; null for all.')),
  scopes: Type.Array(Type.String(), { description: 'Scopes of an API key; none for a portal token.' }),
  capabilities: nullable(
    Type.Array(Type.String(), { description: 'Capabilities of a portal token; null for an API key.' }),
  ),
  readOnly: flag('Whether the token is read-only.'),
  permissions: Type.Object(
    {
      manageEndpoints: flag('Create, change, pause and delete endpoints.'),
      viewSecrets: flag('See the secrets of endpoints.'),
      changeSecrets: flag('Rotate the secrets of endpoints.'),
      sendAgain: flag('Send messages again, and send examples.'),
      publish: flag('Publish messages.'),
      administer: flag('Everything else in all applications: applications, keys, event types, sessions.'),
    },
    { description: 'Operations that it permits, so that a page offers no other.' },
  ),
})

export function toAccessOut(caller: Caller): Out<typeof AccessOut> {
  const { id, app, scopes, capabilities: granted } = caller
  const may = (need: Need) => mayCall(caller, need, true)
  const readOnly = granted === undefined ? !scopes.has('admin') && !scopes.has('publish') : isReadOnly(granted)
  return {
    id,
    appId: app?.id ?? null,
    scopes: [...scopes],
    capabilities: granted === undefined ? null : [...granted],
    readOnly,
    permissions: {
      manageEndpoints: may(manage),
      viewSecrets: may(viewSecret),
      changeSecrets: may(changeSecret),
      sendAgain: may(attempt),
      publish: may(publish),
      administer: mayCall(caller, admin, false),
    },
  }
}

/** Makes a token for the portal of an application, and the link that carries it. */
export async function letIn(
  { store, randomText, publicUrl }: Services,
  { caller, protocol, host }: Incoming,
  app: Application,
  input: Static<typeof AppPortalAccessIn>,
): Promise<Out<typeof AppPortalAccessOut>> {
  const token = makeToken('appsk', randomText)
  await store.createAppToken({
    app: app.key,
    hash: hashApiKey(token),
    capabilities: input.readOnly === true ? ['ViewBase'] : (input.capabilities ?? capabilities),
    featureFlags: input.featureFlags ?? [],
    sessionId: input.sessionId ?? null,
    // The key of the settings has no row; the tokens it makes end by themselves or with expire-all.
    madeBy: caller?.id === fixedCaller.id ? null : (caller?.key ?? null),
    expiresInMs: (input.expiry ?? defaultExpirySeconds) * 1000,
  })
  // Behind the #, which browsers keep to themselves: it is in no log and in no Referer.
  return { url: `${publicUrl ?? `${protocol}://${host}`}/portal#app=${app.id}&token=${token}`, token }
}
