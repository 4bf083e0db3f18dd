/** What stands in a path, by the name the routes give it: its name in the reference, which is Svix's, and what it is. */
export const pathParameters: Readonly<Record<string, { readonly name: string; readonly description: string }>> = {
  app: { name: 'app_id', description: 'The id or uid of an application' },
  endpoint: { name: 'endpoint_id', description: 'The id or uid of an endpoint' },
  message: { name: 'msg_id', description: 'The id or eventId of a message' },
  attempt: { name: 'attempt_id', description: 'The id of an attempt' },
  name: { name: 'event_type_name', description: 'The name of an event type' },
  task: { name: 'task_id', description: 'The id of a background task' },
  schedule: { name: 'schedule_id', description: 'The id or uid of a schedule' },
  region: { name: 'region', description: 'The name of a region' },
  key: { name: 'key_id', description: 'The id of an API key' },
}
