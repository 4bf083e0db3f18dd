import { headers, list, name } from '../../domain/field.ts'
import type { NounField } from '../../noun/noun.ts'
import { endpointFields } from '../endpoints/noun.ts'

/** The fields of a message that whatever publishes one has, too, such as a schedule. */
export const envelopeFields = {
  eventType: { kind: name(256), required: true, description: 'Event type, such as `video.trending`.' },
  channels: { kind: list(name(128), 5), description: endpointFields.channels.description },
  tags: { kind: list(name(128), 10), description: 'Labels to find messages by.' },
  headers: { kind: headers, description: endpointFields.headers.description },
  endpoint: {
    kind: name(256),
    description:
      'The one endpoint that gets the message, by id or uid, even if its event types, channels and filter do not match. A paused or disabled endpoint gets it later, as usual.',
  },
} as const satisfies Readonly<Record<string, NounField>>
