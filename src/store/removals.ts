/**
 * Deleting applications and endpoints. What is deleted is gone for every caller at once: it is not found, its uid is
 * free, nothing is published to it and its lanes are stopped. What it leaves behind may be a million rows, so that is
 * removed later, a bounded number at a time: the deliveries that waited end as cancelled, without an attempt.
 */
export interface Removals {
  /** Answers whether there was such an application. Beyond the first few hundred, its endpoints are stopped by sweeping. */
  deleteApplication(app: number): Promise<boolean>
  /** Answers whether the application had such an endpoint. */
  deleteEndpoint(app: number, endpoint: number): Promise<boolean>
  /** Removes some of what the deleted left behind. Any number of workers may do so at once. */
  sweepRemoved(): Promise<Swept>
}

export interface Swept {
  /** Deliveries that will never be made, because their endpoint was deleted. */
  readonly cancelled: number
  /** Whether there is more to remove right away. */
  readonly more: boolean
}

/** How many endpoints of a deleted application one transaction stops, and how many rows one removes. */
export const endpointsPerRemoval = 200
export const rowsPerRemoval = 1000
