/** What each group of operations is about, in a sentence. */
export const tagDescriptions: Readonly<Record<string, string>> = {
  Message: 'One accepted event. Its bytes never change on their way.',
  Schedule: 'A message that is published again and again, by a cron expression in a time zone.',
  'Message Attempt': 'One HTTP try, and where each message stands at each endpoint.',
  'Dead Letter': 'A delivery that used up its attempts or its time, with the last error and answer.',
  Reference: 'This document.',
}
