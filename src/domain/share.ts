/** What one worker should have of the lanes that all of them share. */
export interface Share {
  /** Owning this many, a worker lets the others choose first. */
  readonly content: number
  /** Whatever it owns beyond this many it gives away. */
  readonly most: number
}

/**
 * Divides lanes among workers. As long as nobody is poor, a tenth above the fair share may stay where it is, because
 * moving a lane makes it pause. Rounding up alone would let workers starve: 12 lanes are shared by five workers as 4, 4,
 * 4, 0 and 0 when four are not too many. So when somebody has less than everyone could have, nobody keeps more than that.
 */
export function shareOf(workers: number, activeLanes: number, fewestLanes: number): Share {
  const fair = activeLanes / workers
  const isSomebodyPoor = fewestLanes < Math.min(Math.floor(fair), Math.ceil(fair * 0.9))
  const content = Math.max(1, isSomebodyPoor ? Math.floor(fair) : Math.ceil(fair))
  return { content, most: isSomebodyPoor ? content : content + Math.ceil(content / 10) }
}
