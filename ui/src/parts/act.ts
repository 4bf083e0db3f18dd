import { toApiError } from '../api/ask.ts'
import { say } from './toast.tsx'

/** Does something that a press asked for, and says that it was done, or why not. Answers whether it was. */
export async function act(work: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await work()
    say(done)
    return true
  } catch (error) {
    say(toApiError(error).message, 'bad')
    return false
  }
}
