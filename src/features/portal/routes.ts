import { Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import { toNew } from '../../noun/noun.ts'
import { schemasOf } from '../../noun/schemas.ts'
import { admin, view } from '../../operations/access.ts'
import { closed, text } from '../../operations/fields.ts'
import { type Noun, route } from '../../operations/route.ts'
import { portalLook } from './noun.ts'

const { made, shown } = schemasOf(portalLook)
const PortalLookIn = Type.Object(made, closed)
const PortalLookOut = Type.Object({
  name: text(portalLook.fields.name.shown),
  logo: shown.logo,
  color: shown.color,
})

export const portal: Noun = {
  tag: 'Portal',
  description: "The look of an application's portal.",
  schemas: { PortalLookIn, PortalLookOut },
  routes: [
    route('GET /app/:app/portal', view, {
      id: 'v1.portal.get',
      summary: "Get the look of an application's portal",
      answers: { 200: PortalLookOut },
      handle: async ({ app }, { store }) => {
        const look = await store.findPortalLook(app.key)
        return { name: look?.name ?? app.name, logo: look?.logo ?? null, color: look?.color ?? null }
      },
    }),
    route('PUT /app/:app/portal', admin, {
      id: 'v1.portal.set',
      summary: "Set the look of an application's portal",
      description: 'Replaces the whole look: a field that is left out is unset.',
      body: PortalLookIn,
      answers: { 200: PortalLookOut },
      handle: async ({ app, body }, { store }) => {
        const look = toNew(portalLook, body)
        if (!(await store.setPortalLook(app.key, look))) throw noSuch('application', app.id)
        return { ...look, name: look.name ?? app.name }
      },
    }),
  ],
}
