import { Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import { admin, view } from '../../operations/access.ts'
import { closed, displayName, maybe, nullable, text } from '../../operations/fields.ts'
import { type Noun, route } from '../../operations/route.ts'

/** Large enough for a sharp logo, small enough to come with every page. */
const longestLogo = 48 * 1024

/** Images alone. A page shows it as an image, in which an SVG runs no script and loads nothing. */
const logoPattern = '^data:image/(png|jpeg|gif|webp|svg\\+xml);base64,[A-Za-z0-9+/]+={0,2}$'

const PortalLookIn = Type.Object(
  {
    name: maybe(displayName(100), "Heading of the portal; the application's name by default."),
    logo: maybe(
      Type.String({ maxLength: longestLogo, pattern: logoPattern }),
      'Logo as a `data:` URL with base64: PNG, JPEG, GIF, WebP or SVG, up to 48 KiB. Null for none.',
    ),
    color: maybe(Type.String({ pattern: '^#[0-9a-fA-F]{6}$' }), 'Colour of buttons and links, such as `#3b5bdb`.'),
  },
  closed,
)

const PortalLookOut = Type.Object({
  name: text("Heading of the portal; the application's name unless another is set."),
  logo: nullable(text('Logo as a `data:` URL.')),
  color: nullable(text('Colour of buttons and links, such as `#3b5bdb`.')),
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
      handle: async ({ app, body: { name = null, logo = null, color = null } }, { store }) => {
        if (!(await store.setPortalLook(app.key, { name, logo, color }))) throw noSuch('application', app.id)
        return { name: name ?? app.name, logo, color }
      },
    }),
  ],
}
