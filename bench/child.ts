import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** The commands of a child process: each command takes at most one value and answers one. */
export type Commands = Readonly<Record<string, (input: never) => unknown>>

/** A process of the bench's own that is asked over its channel and ends with it. */
export interface Child<C extends Commands> {
  readonly pid: number
  ask<K extends keyof C & string>(command: K, ...input: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>>
}

interface Question {
  readonly n: number
  readonly command: string
  readonly input: unknown
}

type Reply = { readonly n: number; readonly value: unknown } | { readonly n: number; readonly error: string }

/** Starts `bench/<name>.ts` as a process; it is killed when `ends` is disposed. A death in between fails what was asked. */
export function startChild<C extends Commands>(name: string, ends: AsyncDisposableStack): Child<C> {
  const file = fileURLToPath(new URL(`${name}.ts`, import.meta.url))
  const child = fork(file, [], {
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const open = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let asked = 0
  const gone = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      for (const { reject } of open.values()) reject(new Error(`the ${name} process ended early (${signal ?? code})`))
      open.clear()
      resolve()
    })
  })
  child.on('message', (reply: Reply) => {
    const question = open.get(reply.n)
    open.delete(reply.n)
    if ('error' in reply) question?.reject(new Error(`${name}: ${reply.error}`))
    else question?.resolve(reply.value)
  })
  ends.defer(async () => {
    child.kill('SIGKILL')
    await gone
  })
  return {
    pid: child.pid ?? 0,
    ask: (command, ...[input]) =>
      new Promise((resolve, reject) => {
        const n = asked++
        open.set(n, { resolve: resolve as (value: unknown) => void, reject })
        child.send({ n, command, input } satisfies Question, (error) => error && reject(error))
      }),
  }
}

/** The child's side: answers what it is asked until the parent is gone, then exits. */
export function answer(commands: Commands): void {
  process.on('message', (question: Question) => {
    const run = commands[question.command] as (input: unknown) => unknown
    const reply = async (): Promise<unknown> => run(question.input)
    reply().then(
      (value) => process.send?.({ n: question.n, value } satisfies Reply),
      (error: Error) => process.send?.({ n: question.n, error: error.message } satisfies Reply),
    )
  })
  process.on('disconnect', () => process.exit(0))
}
