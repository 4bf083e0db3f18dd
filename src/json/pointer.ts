/** How deep a pointer may reach, which also bounds how deep shaping goes into a payload. */
export const pointerDepthLimit = 32

/** In a pointer, stands for every element of an array. In an object it is a name like any other. */
export const everyElement = '*'

/** The reference tokens of a valid JSON pointer (RFC 6901); none for the pointer to the whole document. */
export function stepsOf(pointer: string): string[] {
  if (pointer === '') return []
  return pointer
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The reference tokens of a text; undefined when it is no pointer, too deep, or names the whole document. */
export function readPointer(text: string): string[] | undefined {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return undefined
  const steps = stepsOf(text)
  return steps.length > pointerDepthLimit ? undefined : steps
}
