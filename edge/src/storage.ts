/** The result of a call to storage; undefined when the storage failed, which is logged. */
export async function attempted<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    console.error(JSON.stringify({ event: 'storage failed', problem: String(error).slice(0, 200) }))
    return undefined
  }
}
