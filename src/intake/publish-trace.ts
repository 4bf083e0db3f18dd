import type { TraceContext } from '../domain/trace-context.ts'
import type { Item } from './publication.ts'

/** Makes a span of each publish. It never throws and never waits. */
export interface PublishTracer {
  begin(items: readonly Item[]): PublishSpan
}

/** The span of a publish under way. */
export interface PublishSpan {
  /** The context that is stored with the messages; null when they belong to no trace. */
  readonly trace: TraceContext | null
  /** The publish ended with an answer, or with the error that refused it. */
  end(answer: unknown, error?: unknown): void
}

/** Carries out a publish within a span, if publishes are traced. The messages get the context of the span. */
export function traced<T>(
  tracer: PublishTracer | undefined,
  items: readonly Item[],
  publish: (items: readonly Item[]) => Promise<T>,
): Promise<T> {
  if (tracer === undefined) return publish(items)
  const span = tracer.begin(items)
  return publish(withTrace(items, span.trace)).then(
    (answer) => {
      span.end(answer)
      return answer
    },
    (error) => {
      span.end(undefined, error)
      throw error
    },
  )
}

/** The items within the trace of a span. */
function withTrace(items: readonly Item[], trace: TraceContext | null): readonly Item[] {
  return trace === null ? items : items.map(({ envelope, body }) => ({ envelope: { ...envelope, trace }, body }))
}
