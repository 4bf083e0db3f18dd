/** What each group of operations is about, in a sentence. */
export const tagDescriptions: Readonly<Record<string, string>> = {
  Application: 'One tenant: it owns endpoints and messages.',
  Endpoint: "One subscriber's URL with its limits, secrets and filters.",
  Message: 'One accepted event. Its bytes never change on their way.',
  Schedule: 'A message that is published again and again, by a cron expression in a time zone.',
  'Message Attempt': 'One HTTP try, and where each message stands at each endpoint.',
  Replay: 'Sending again: served last, and at the pace of the endpoint. What is many is a background task.',
  'Dead Letter': 'A delivery that used up its attempts or its time, with the last error and answer.',
  Authentication: 'Tokens for the portal of one application.',
  'Operational Webhook': 'Endpoints that are to hear of what happens here. They are kept; nothing is sent to them yet.',
  Reference: 'This document.',
}
