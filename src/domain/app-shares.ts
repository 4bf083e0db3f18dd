/**
 * Divides a limit among workers by need. No worker gets more than it wants while another wants more, and those that want
 * more get the same. The part that none wants is lent to all evenly, so that a sudden need is met at once.
 */
export function fairShares(limit: number, wants: readonly number[]): number[] {
  const shares = wants.map(() => 0)
  let left = limit
  let unmet = [...wants.keys()].filter((i) => (wants[i] as number) > 0)
  while (unmet.length > 0) {
    const each = left / unmet.length
    const modest = unmet.filter((i) => (wants[i] as number) <= each)
    if (modest.length === 0) {
      for (const i of unmet) shares[i] = each
      return shares
    }
    for (const i of modest) {
      shares[i] = wants[i] as number
      left -= wants[i] as number
    }
    unmet = unmet.filter((i) => !modest.includes(i))
  }
  return shares.map((share) => share + left / wants.length)
}

/**
 * As `fairShares`, in whole numbers. The remainder of rounding goes to workers that want more, one each; `turn` says with
 * whom that begins, so that workers take turns where there are more of them than slots.
 */
export function wholeShares(limit: number, wants: readonly number[], turn: number): number[] {
  const fair = fairShares(limit, wants)
  const shares = fair.map((share) => Math.floor(share + 1e-6))
  let left = limit - shares.reduce((sum, share) => sum + share, 0)
  const eager = [...wants.keys()].filter((i) => (wants[i] as number) > (shares[i] as number))
  for (let n = 0; n < eager.length && left > 0; n++, left--) {
    const i = eager[(n + turn) % eager.length] as number
    shares[i] = (shares[i] as number) + 1
  }
  return shares
}

/** A worker's share of a limit: as much as it holds, and as much as it should hold. It gives up the rest by itself. */
export interface Share {
  readonly held: number
  readonly target: number
}

/**
 * The share that a worker holds from now on, which uses at most `uses` of it. It gets the part that others do not hold, up to its
 * target, and loses nothing that it may be using: the sum of all shares never exceeds the limit.
 */
export function shareHeld(uses: number, target: number, limit: number, others: number): Share {
  return { held: Math.max(uses, Math.min(target, limit - others)), target }
}
