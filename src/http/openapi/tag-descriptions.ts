/** What each group of operations is about, in a sentence. */
export const tagDescriptions: Readonly<Record<string, string>> = {
  Application: 'One tenant: it owns endpoints and messages.',
  Endpoint: "One subscriber's URL with its limits, secrets and filters.",
  'Event Type':
    'A dotted name such as `video.trending`, with a schema if it has one. Endpoints also subscribe to `video.*` and `*`.',
  Message: 'One accepted event. Its bytes never change on their way.',
  Region: 'A secret that pseudonyms in the payloads of its endpoints are made with.',
  Schedule: 'A message that is published again and again, by a cron expression in a time zone.',
  'Message Attempt': 'One HTTP try, and where each message stands at each endpoint.',
  Replay: 'Sending again: served last, and at the pace of the endpoint. What is many is a background task.',
  'Dead Letter': 'A delivery that used up its attempts or its time, with the last error and answer.',
  Lane: 'What an endpoint waits for, and why a message has not been delivered yet.',
  'Background Task': 'Work that goes on after the request that asked for it, over restarts.',
  Statistics: 'Counts over applications, as background tasks.',
  Authentication: 'Tokens for the portal of one application.',
  Audit: 'Who changed what and when, each row hashed together with the one before.',
  'Operational Webhook': 'Endpoints that are to hear of what happens here. They are kept; nothing is sent to them yet.',
  Health: 'Whether the server and its store answer.',
  Reference: 'This document.',
}
