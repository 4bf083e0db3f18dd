/** How deep a pointer may reach, which also bounds how deep shaping goes into a payload. */
export const pointerDepthLimit = 32

/** In a pointer, stands for every element of an array. In an object it is a name like any other. */
export const everyElement = '*'

/** The reference tokens of a JSON pointer (RFC 6901); undefined when the text is none, or names the whole payload. */
export function readPointer(text: string): string[] | undefined {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return undefined
  const steps = text
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  return steps.length > pointerDepthLimit ? undefined : steps
}
