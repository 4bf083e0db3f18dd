import { display, matching } from '../../domain/field.ts'
import { type New, noun } from '../../noun/noun.ts'

/** Large enough for a sharp logo, small enough to come with every page. */
const longestLogo = 48 * 1024

/** Images alone. A page shows it as an image, in which an SVG runs no script and loads nothing. */
const logoPattern = '^data:image/(png|jpeg|gif|webp|svg\\+xml);base64,[A-Za-z0-9+/]+={0,2}$'

/** The look of an application's portal: one for each application. */
export const portalLook = noun({
  name: 'portal look',
  table: 'portal_look',
  fields: {
    name: {
      kind: display(100),
      description: "Heading of the portal; the application's name by default.",
      shown: "Heading of the portal; the application's name unless another is set.",
    },
    logo: {
      kind: matching(logoPattern, longestLogo),
      description: 'Logo as a `data:` URL with base64: PNG, JPEG, GIF, WebP or SVG, up to 48 KiB. Null for none.',
      shown: 'Logo as a `data:` URL.',
    },
    color: {
      kind: matching('^#[0-9a-fA-F]{6}$'),
      description: 'Colour of buttons and links, such as `#3b5bdb`.',
    },
  },
})

/** Null leaves a part as it is for all. */
export type PortalLook = New<typeof portalLook>
