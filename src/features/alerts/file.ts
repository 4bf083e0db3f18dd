import { readFileSync } from 'node:fs'
import { type Document, isNode, LineCounter, parseDocument } from 'yaml'
import { nearest } from '../../domain/phrases.ts'
import { ConfigError } from '../../runtime/config.ts'
import { duration, size, WrongValue } from '../../runtime/setting-kinds.ts'
import { defaultRules, type Figure, type FigureName, figures, usualClear } from './figures.ts'
import { type AlertReceiver, bodyFor, exampleAnnouncement, unknownNames, type WebReceiver } from './receivers.ts'
import type { AlertRule } from './rules.ts'

/** The rules and receivers of alerts. */
export interface AlertSettings {
  readonly rules: readonly AlertRule[]
  readonly receivers: readonly AlertReceiver[]
}

type Env = Readonly<Record<string, string | undefined>>
type Path = readonly string[]

const day = 24 * 60 * 60 * 1000
const pagerDutyUrl = 'https://events.pagerduty.com/v2/enqueue'
const namePattern = /^[a-z][a-z0-9_-]{0,39}$/

/** Reads the alerts file. Throws `ConfigError` that names every mistake with its line. */
export function loadAlertFile(path: string, env: Env = process.env): AlertSettings {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new ConfigError([`alertsFile: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`])
  }
  return new Reader(path, text, env).read()
}

/** Reads one file. YAML contains JSON, so one parser reads both. */
class Reader {
  readonly #name: string
  readonly #env: Env
  readonly #lines = new LineCounter()
  readonly #document: Document
  readonly #problems: string[] = []

  constructor(name: string, text: string, env: Env) {
    this.#name = name
    this.#env = env
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false, logLevel: 'error' })
  }

  read(): AlertSettings {
    for (const { pos, message } of this.#document.errors) {
      this.#problems.push(`${this.#name} line ${this.#lines.linePos(pos[0]).line}: ${message}`)
    }
    this.#end()
    const file = this.#map([], this.#document.toJS({ maxAliasCount: 100 }) ?? {}, ['defaults', 'rules', 'receivers'])
    const { defaults = true } = file
    if (typeof defaults !== 'boolean') this.#wrong(['defaults'], 'must be true or false')
    const rules = new Map(defaults === false ? [] : defaultRules.map((rule) => [rule.name, rule]))
    for (const [name, given] of Object.entries(this.#map(['rules'], file.rules ?? {}))) {
      const rule = this.#rule(name, given)
      if (rule === undefined) rules.delete(name)
      else rules.set(name, rule)
    }
    const receivers = Object.entries(this.#map(['receivers'], file.receivers ?? {})).flatMap(
      ([name, given]) => this.#receiver(name, given, new Set(rules.keys())) ?? [],
    )
    this.#end()
    return { rules: [...rules.values()], receivers }
  }

  /** A rule; undefined when it is switched off, or wrong. */
  #rule(name: string, given: unknown): AlertRule | undefined {
    const path = ['rules', name]
    const usual = defaultRules.find((rule) => rule.name === name)
    if (given === 'off' || given === false) {
      if (usual === undefined)
        this.#wrong(
          path,
          `no default rule has this name${hint(
            name,
            defaultRules.map((each) => each.name),
          )}`,
        )
      return undefined
    }
    const fields = this.#map(path, given, ['figure', 'above', 'below', 'clear', 'for', 'clearFor', 'severity'])
    this.#checkName(path, name)
    const figure = fields.figure ?? usual?.figure
    const known = (figures as Readonly<Record<string, Figure>>)[String(figure)]
    if (known === undefined) {
      const names = Object.keys(figures)
      const remedy =
        figure === undefined ? `name its figure, such as \`figure: ${names[0]}\`` : hint(String(figure), names)
      this.#wrong(figure === undefined ? path : [...path, 'figure'], `must name a figure of docs/alerts.md: ${remedy}`)
      return undefined
    }
    const { side } = known
    const other = side === 'above' ? 'below' : 'above'
    if (other in fields) this.#wrong([...path, other], `must be \`${side}\`: trouble is a figure ${side} its threshold`)
    if (!(side in fields) && usual === undefined) this.#wrong(path, `needs a threshold: \`${side}: NUMBER\``)
    const threshold = side in fields ? this.#amount([...path, side], fields[side], known) : (usual?.threshold ?? 0)
    const moved = usual === undefined || side in fields
    const clear =
      'clear' in fields
        ? this.#amount([...path, 'clear'], fields.clear, known)
        : moved
          ? usualClear(side, threshold)
          : usual.clear
    if (side === 'above' ? clear > threshold : clear < threshold) {
      this.#wrong([...path, 'clear'], `must be no ${side === 'above' ? 'higher' : 'lower'} than the threshold`)
    }
    const severity = fields.severity ?? usual?.severity ?? 'warning'
    if (severity !== 'warning' && severity !== 'critical') {
      this.#wrong([...path, 'severity'], 'must be warning or critical')
      return undefined
    }
    const holdMs = 'for' in fields ? this.#duration([...path, 'for'], fields.for) : (usual?.holdMs ?? 0)
    const clearMs =
      'clearFor' in fields ? this.#duration([...path, 'clearFor'], fields.clearFor) : (usual?.clearMs ?? 60_000)
    return { name, figure: figure as FigureName, severity, side, threshold, clear, holdMs, clearMs }
  }

  #receiver(name: string, given: unknown, rules: ReadonlySet<string>): AlertReceiver | undefined {
    const path = ['receivers', name]
    this.#checkName(path, name)
    const types = ['slack', 'pagerduty', 'url', 'command']
    const { type } = this.#map(path, given)
    if (!types.includes(String(type))) {
      this.#wrong(type === undefined ? path : [...path, 'type'], `needs a type: ${types.join(', ')}`)
      return undefined
    }
    const allowed = {
      slack: ['url'],
      pagerduty: ['url', 'routingKey'],
      url: ['url', 'headers', 'body', 'contentType'],
      command: ['command', 'timeout'],
    }[type as AlertReceiver['type']]
    const fields = this.#map(path, given, ['type', 'rules', ...allowed])
    const wanted = fields.rules === undefined ? null : this.#ruleNames([...path, 'rules'], fields.rules, rules)
    if (type === 'command') {
      const command = Array.isArray(fields.command) ? fields.command.map(String) : []
      if (command.length === 0) {
        this.#wrong(
          [...path, 'command'],
          'must be a list: the program and its arguments, such as ["/usr/local/bin/page"]',
        )
      }
      const timeoutMs = 'timeout' in fields ? this.#duration([...path, 'timeout'], fields.timeout) : 10_000
      return { name, type, rules: wanted, command, timeoutMs }
    }
    const web = this.#webReceiver(path, type as WebReceiver['type'], fields)
    return { name, rules: wanted, ...web }
  }

  #webReceiver(path: Path, type: WebReceiver['type'], fields: Readonly<Record<string, unknown>>) {
    const url =
      type === 'pagerduty' && fields.url === undefined ? pagerDutyUrl : this.#text([...path, 'url'], fields.url)
    if (url !== '' && !/^https?:\/\//.test(url)) this.#wrong([...path, 'url'], 'must be a URL: https://…')
    const routingKey = type === 'pagerduty' ? this.#text([...path, 'routingKey'], fields.routingKey) : ''
    const given = this.#map([...path, 'headers'], fields.headers ?? {})
    const headers = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [name, this.#text([...path, 'headers', name], value)]),
    )
    const contentType =
      fields.contentType === undefined ? 'application/json' : this.#text([...path, 'contentType'], fields.contentType)
    const template = fields.body === undefined ? null : this.#text([...path, 'body'], fields.body)
    const receiver = { type, url, headers, contentType, routingKey, template }
    if (template !== null) this.#checkTemplate([...path, 'body'], template, receiver)
    return receiver
  }

  #checkTemplate(path: Path, template: string, receiver: Omit<WebReceiver, 'name' | 'rules'>): void {
    for (const name of unknownNames(template)) {
      this.#wrong(path, `names {{${name}}}, which no alert has; docs/alerts.md lists the names`)
    }
    if (!receiver.contentType.includes('json')) return
    try {
      JSON.parse(bodyFor({ name: '', rules: null, ...receiver }, exampleAnnouncement))
    } catch {
      this.#wrong(path, 'must make JSON: put each {{name}} into quotes, or set another contentType')
    }
  }

  #ruleNames(path: Path, given: unknown, rules: ReadonlySet<string>): string[] {
    const list = Array.isArray(given) ? given.map(String) : [String(given)]
    for (const name of list) {
      if (!rules.has(name))
        this.#wrong(path, `${name} is no rule of this file or a default one${hint(name, [...rules])}`)
    }
    return list
  }

  /** Text in which `${NAME}` stands for a variable of the environment. */
  #text(path: Path, given: unknown): string {
    if (typeof given !== 'string' || given === '') {
      this.#wrong(path, 'must be a text')
      return ''
    }
    return given.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
      const value = this.#env[name]
      if (value === undefined)
        this.#wrong(path, `names the variable ${name}, which is not set: set it for this process`)
      return value ?? ''
    })
  }

  #amount(path: Path, given: unknown, { unit }: Figure): number {
    if (typeof given === 'number' && Number.isFinite(given) && given >= 0) return given
    const kind = unit === 'bytes' ? size(0, Number.MAX_SAFE_INTEGER) : unit === 'seconds' ? duration(0, 30 * day) : null
    const parsed = kind === null ? undefined : this.#parsed(path, () => kind.parse(given))
    if (kind === null) this.#wrong(path, `must be a number of ${unit}, such as 1000`)
    return unit === 'seconds' ? (parsed ?? 0) / 1000 : (parsed ?? 0)
  }

  #duration(path: Path, given: unknown): number {
    return this.#parsed(path, () => duration(0, day).parse(given === 0 ? '0s' : given)) ?? 0
  }

  #parsed(path: Path, parse: () => number): number | undefined {
    try {
      return parse()
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error
      this.#wrong(path, `must be ${error.message}`)
      return undefined
    }
  }

  #map(path: Path, given: unknown, names?: readonly string[]): Record<string, unknown> {
    if (typeof given !== 'object' || given === null || Array.isArray(given)) {
      this.#wrong(path, 'must be a mapping of names to values')
      return {}
    }
    for (const name of Object.keys(given)) {
      if (names !== undefined && !names.includes(name)) {
        this.#wrong([...path, name], `is unknown${hint(name, names)}`)
      }
    }
    return given as Record<string, unknown>
  }

  #checkName(path: Path, name: string): void {
    if (!namePattern.test(name)) {
      this.#wrong(path, 'must have a name of up to 40 letters a to z, digits, _ and -, with a letter first')
    }
  }

  #wrong(path: Path, message: string): void {
    const shown = path.length === 0 ? 'the file' : path.join('.')
    this.#problems.push(`${this.#name} line ${this.#lineOf(path)}: ${shown} ${message}`)
  }

  /** The line of the value at a path, or of the nearest value around it that exists. */
  #lineOf(path: Path): number {
    for (let length = path.length; length > 0; length--) {
      const node = this.#document.getIn(path.slice(0, length), true)
      if (isNode(node) && node.range) return this.#lines.linePos(node.range[0]).line
    }
    return 1
  }

  #end(): void {
    if (this.#problems.length > 0) throw new ConfigError(this.#problems)
  }
}

function hint(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  return near === undefined ? `; known: ${known.join(', ')}` : `; did you mean ${near}?`
}
