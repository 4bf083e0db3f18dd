const sensitive = /(^|-)(authorization|authenticate|auth|cookie|credentials?|key|password|secret|signature|token)(-|$)/

/** Whether the value of an endpoint's header is a secret by the header's name, to be shown to nobody once it is set. */
export function isSensitiveHeader(name: string): boolean {
  return sensitive.test(name.toLowerCase()) || /apikey|api-key/i.test(name)
}
