/** The sentence for a Node that is too old; undefined when this one will do. Plain JavaScript that every Node can read. */
export function nodeProblem() {
  const { node } = process.versions
  return Number.parseInt(node, 10) < 24 ? `Sluice needs Node 24 or newer; this is ${node}.` : undefined
}
