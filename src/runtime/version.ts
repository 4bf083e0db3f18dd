import { packageText } from '../assets/assets.ts'

/** The version of this Sluice. */
export const version: string = JSON.parse(packageText()).version
