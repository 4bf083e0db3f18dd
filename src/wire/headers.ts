/** Headers that Sluice or the protocol sets. Neither an endpoint nor a message can set one of them. */
const reserved =
  /^(accept-encoding|connection|content-.*|expect|host|keep-alive|proxy-.*|svix-.*|te|trailer|transfer-encoding|upgrade|user-agent|webhook-.*|x-svix-.*)$/i

const sensitive =
  /(^|-)(authorization|authenticate|auth|cookie2?|credentials?|key|password|secret|signature|token)(-|$)/i

const maxValueLength = 4096
const unsendable = /[^\t\x20-\x7e\x80-\xff]/

/** Whether Sluice or the protocol sets the header of this name. */
export function isReservedHeader(name: string): boolean {
  return reserved.test(name)
}

/** Whether the value of a header is a secret, by its name. It is never shown again once it is set. */
export function isSensitiveHeader(name: string): boolean {
  return sensitive.test(name) || /apikey|api-key/i.test(name)
}

/** Whether a text is the name of a header. */
export function isHeaderName(text: string): boolean {
  return /^[a-z0-9-]{1,64}$/i.test(text)
}

/** A sentence about the problem of a header that an endpoint wants to be sent; undefined when there is none. */
export function checkHeader(name: string, value: string): string | undefined {
  if (!isHeaderName(name)) return `The header name ${JSON.stringify(name.slice(0, 80))} is not valid.`
  if (isReservedHeader(name)) return `The header ${name} is set by Sluice itself.`
  return isSendable(value) ? undefined : `The value of the header ${name} contains characters that cannot be sent.`
}

/**
 * An endpoint's headers as they are sent, a list of names and values in turn. Reserved ones are left out, so that none can
 * be overridden; undefined when one cannot be sent at all, such as one that holds a line break.
 */
export function wireHeaders(headers: Readonly<Record<string, string>>): string[] | undefined {
  const flat: string[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (isHeaderName(name) && isReservedHeader(name)) continue
    if (checkHeader(name, value) !== undefined) return undefined
    flat.push(name.toLowerCase(), value)
  }
  return flat
}

/**
 * The last check of a request's head, right before it is written: the index of the first name or value that must not be
 * sent, or -1. However a value got into the store, none with a line break leaves.
 */
export function unsendableAt(head: readonly string[], from = 0): number {
  for (let i = from; i < head.length; i++) {
    const text = head[i]
    if (typeof text !== 'string' || (i % 2 === 0 ? !isHeaderName(text) : unsendable.test(text))) return i
  }
  return -1
}

function isSendable(value: string): boolean {
  return typeof value === 'string' && value.length <= maxValueLength && !unsendable.test(value)
}
