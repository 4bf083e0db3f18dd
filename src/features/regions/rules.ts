/** The region of lanes whose endpoint and application name none. */
export const defaultRegion = 'default'

/** The regions that a worker serves; null for all. */
export type Regions = readonly string[] | null

/** Regions that one worker can name. */
export const mostRegions = 32

/** The region of an endpoint's lane: the endpoint's own, else its application's. */
export function regionOf(own: string | null | undefined, ofApplication: string | null | undefined): string {
  return own ?? ofApplication ?? defaultRegion
}

/** Whether a worker with these regions may own a lane of this region. */
export function serves(regions: Regions, region: string | undefined): boolean {
  return regions === null || regions.includes(region ?? defaultRegion)
}

/** The regions of one living worker, and the lanes that it owns in each region. */
interface RegionalWorker {
  readonly regions: Regions
  readonly owned: ReadonlyMap<string, number>
}

/** The lanes of one region, and the workers that share them. */
export interface RegionShare {
  /** Workers alive that serve the region. */
  readonly workers: number
  /** Lanes of the region: owned by any worker, or due and unowned. */
  readonly activeLanes: number
  /** How many lanes of the region the worker owns that owns the fewest. */
  readonly fewestLanes: number
}

/** The shares of the regions that have lanes to share and that a worker with these regions serves. */
export function regionShares(
  regions: Regions,
  workers: readonly RegionalWorker[],
  dueLanes: ReadonlyMap<string, number>,
): Map<string, RegionShare> {
  const names = new Set([...dueLanes.keys(), ...workers.flatMap(({ owned }) => [...owned.keys()])])
  const shares = new Map<string, RegionShare>()
  for (const name of names) {
    if (!serves(regions, name)) continue
    // A worker that is about to give a lane back still owns it, though it no longer serves its region.
    const owned = workers.reduce((sum, worker) => sum + (worker.owned.get(name) ?? 0), 0)
    const serving = workers.filter((worker) => serves(worker.regions, name))
    const fewest = Math.min(...serving.map((worker) => worker.owned.get(name) ?? 0))
    shares.set(name, {
      workers: Math.max(1, serving.length),
      activeLanes: owned + (dueLanes.get(name) ?? 0),
      fewestLanes: serving.length === 0 ? 0 : fewest,
    })
  }
  return shares
}

/** One worker's share of the lanes. */
export interface Share {
  /** A worker with this many lanes lets the others claim first. */
  readonly content: number
  /** A worker with more lanes than this gives the rest away. */
  readonly most: number
}

/**
 * Divides lanes, of a region or of all, among workers. A worker may keep a tenth above the fair share, because moving a lane
 * makes it pause; but not while another worker has less than its share. Rounding up alone would let workers starve: five
 * workers would share 12 lanes as 4, 4, 4, 0 and 0.
 */
export function shareOf({ workers, activeLanes, fewestLanes }: RegionShare): Share {
  const fair = activeLanes / workers
  const isOneShort = fewestLanes < Math.min(Math.floor(fair), Math.ceil(fair * 0.9))
  const content = Math.max(1, isOneShort ? Math.floor(fair) : Math.ceil(fair))
  return { content, most: isOneShort ? content : content + Math.ceil(content / 10) }
}
