import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { Code, indent } from '../parts/code.tsx'
import { Segmented } from '../parts/page.tsx'
import { Status } from '../parts/pill.tsx'
import { exampleOf, type Operation, type Parameter, type Reference } from './document.ts'
import { Fields, Method, Prose, Shape } from './schema.tsx'
import { snippetsOf } from './snippets.ts'
import { TryForm } from './try.tsx'

/** The kind of code that the reader chose last; operations that lack it show curl. */
const chosen = signal('curl')

/** One operation: its request, answers and errors; beside it examples, and a form that sends it. */
export function OperationPage({ operation, reference }: { operation: Operation; reference: Reference }) {
  const { summary, description, method, path, security, parameters, requestBody, responses } = operation
  const { schemas, errors } = reference
  const [values, setValues] = useState(() => exampleOf(operation))
  const [[type, body] = []] = Object.entries(requestBody?.content ?? {})
  const answers = Object.entries(responses).filter(([, { $ref }]) => $ref === undefined)
  const refusals = Object.entries(responses).flatMap(([status, { $ref }]) =>
    $ref === undefined ? [] : (errors[status] ?? []).map((each) => ({ status, ...each })),
  )
  const scope = security[0]?.key.join(' ')
  return (
    <article class="page operation">
      <header>
        <p class="faint">{operation.tags.join(' ')}</p>
        <h1>{summary}</h1>
        <p class="path">
          <Method name={method} />
          <code>{path}</code>
        </p>
        <p class="soft">
          {scope === undefined ? (
            'Needs no key.'
          ) : (
            <>
              Needs a key with the scope <code>{scope}</code>.
            </>
          )}{' '}
          {description !== undefined && <Prose text={description} />}
        </p>
      </header>
      <div class="two">
        <div class="said">
          <Parameters title="Path" parameters={parameters} place="path" reference={reference} />
          <Parameters title="Query" parameters={parameters} place="query" reference={reference} />
          <Parameters title="Headers" parameters={parameters} place="header" reference={reference} />
          {body !== undefined && (
            <section aria-label="Body">
              <h2>
                Body <span class="faint">{type}</span>{' '}
                {requestBody?.required === false && <span class="faint">may be left out</span>}
              </h2>
              <Shape schema={body.schema} schemas={schemas} isAnswer={false} />
            </section>
          )}
          {answers.map(([status, { description: text = '', content = {} }]) => {
            const [[answerType, answer] = []] = Object.entries(content)
            return (
              <section key={status} aria-label={`Fields of the answer ${status}`}>
                <h2>
                  Answer <Status code={Number(status)} /> <span class="faint">{answerType ?? text}</span>
                </h2>
                {answer !== undefined && <Shape schema={answer.schema} schemas={schemas} isAnswer />}
              </section>
            )
          })}
          {refusals.length > 0 && (
            <section aria-label="Errors">
              <h2>Errors</h2>
              <dl class="codes">
                {refusals.map(({ status, code, remedy }) => (
                  <div key={code}>
                    <dt>
                      <span class="faint">{status}</span> <code>{code}</code>
                    </dt>
                    <dd>
                      <Prose text={remedy} />
                    </dd>
                  </div>
                ))}
              </dl>
            </section>
          )}
        </div>
        <div class="shown">
          <Request operation={operation} values={values} />
          {answers.map(([status, { content = {} }]) => {
            const [[, answer] = []] = Object.entries(content)
            if (answer?.example === undefined) return null
            const text = typeof answer.example === 'string' ? answer.example : JSON.stringify(answer.example)
            return (
              <section key={status} aria-label={`Example of the answer ${status}`}>
                <h2>
                  Answer <Status code={Number(status)} />
                </h2>
                <Code text={indent(text)} label={`Answer ${status}`} />
              </section>
            )
          })}
          <TryForm operation={operation} values={values} onChange={setValues} />
        </div>
      </div>
    </article>
  )
}

function Request({ operation, values }: { operation: Operation; values: ReturnType<typeof exampleOf> }) {
  const snippets = snippetsOf(operation, values, location.origin)
  const shown = snippets.find(({ name }) => name === chosen.value) ?? snippets[0]
  return (
    <section aria-label="Example of the request">
      <h2>Request</h2>
      <Segmented
        label="Code"
        value={shown?.name ?? ''}
        choices={snippets.map(({ name }) => [name, name])}
        onChange={(name) => {
          chosen.value = name
        }}
      />
      <Code text={shown?.code ?? ''} label={`Request with ${shown?.name}`} />
    </section>
  )
}

interface ParametersProps {
  readonly title: string
  readonly parameters: readonly Parameter[]
  readonly place: Parameter['in']
  readonly reference: Reference
}

function Parameters({ title, parameters, place, reference }: ParametersProps) {
  const fields = parameters
    .filter((parameter) => parameter.in === place)
    .map(({ name, required, schema, description }) => ({
      name,
      required,
      schema: { ...schema, ...(description !== undefined && { description }) },
    }))
  if (fields.length === 0) return null
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <Fields fields={fields} schemas={reference.schemas} />
    </section>
  )
}
