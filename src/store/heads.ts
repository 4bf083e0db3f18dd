/** What an operator does about a delivery that keeps others back in a lane with an order. */
export interface Heads {
  /**
   * Has the first delivery of an endpoint's line, or the named one, tried anew at once with all its attempts (`retry`), or
   * taken out of the way as a dead letter (`skip`). Whoever has the lane carries it out, so that the delivery has one end:
   *   told — it is stored, and the lane's owner knows, or will when there is one;
   *   busy — there is nothing to retry: it does not wait for a retry, but for its turn, or is being sent;
   *   none — no such delivery waits.
   */
  directHead(endpoint: number, message: number | null, order: HeadOrder): Promise<HeadAnswer>
}

export type HeadOrder = 'retry' | 'skip'

export type HeadAnswer =
  | { readonly state: 'told'; readonly message: number }
  | { readonly state: 'busy'; readonly message: number }
  | { readonly state: 'none' }
