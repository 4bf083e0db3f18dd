import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { eventually } from '../e2e/eventually.ts'

/** The browser that comes with the development dependencies runs here; elsewhere name one in CHROME. */
export const hasBrowser = process.env.CHROME !== undefined || (process.platform === 'linux' && process.arch === 'x64')

export interface Browser {
  /** Where its debugger listens. */
  readonly host: string
  close(): Promise<void>
}

/** A process for each page and each server would cost as much as a test. */
const oneRenderer = [
  '--renderer-process-limit=1',
  '--disable-site-isolation-trials',
  '--disable-features=IsolateOrigins,site-per-process,SpareRendererForSitePerProcess',
]

/** Starts a browser. Unpacking it takes longer than any of the tests. */
export async function startBrowser(): Promise<Browser> {
  const place = await mkdtemp(join(tmpdir(), 'sluice-browser-'))
  const { path, env } = await unpack(place)
  const flags = [
    '--headless',
    '--no-sandbox',
    '--no-zygote',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    ...oneRenderer,
  ]
  const browser = spawn(path, [...flags, '--remote-debugging-port=0', `--user-data-dir=${join(place, 'user')}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // Without a language, the browser names one that no library takes.
    env: { ...process.env, LANG: 'en_US.UTF-8', ...env },
  })
  const { host } = new URL(await debuggerOf(browser))
  return {
    host,
    async close() {
      const ended = new Promise((resolve) => browser.once('exit', resolve))
      if (browser.kill('SIGKILL')) await ended
      await rm(place, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** Unpacks the browser, with the libraries that a bare machine lacks, into the place. */
async function unpack(place: string): Promise<{ path: string; env: Record<string, string> }> {
  if (process.env.CHROME !== undefined) return { path: process.env.CHROME, env: {} }
  const code = "process.stdout.write(await (await import('@sparticuz/chromium')).default.executablePath())"
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    // It unpacks its libraries only where it believes to be needed.
    env: { ...process.env, TMPDIR: place, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x' },
    cwd: import.meta.dirname,
  })
  const fonts = join(place, 'fonts')
  // The list of fonts that the package brings names /tmp/fonts, whatever directory it unpacks to. A page without any font
  // shows no text at all.
  const list = `<dir>${fonts}</dir><cachedir>${join(place, 'font-cache')}</cachedir>`
  await writeFile(join(fonts, 'fonts.conf'), `<?xml version="1.0"?><fontconfig>${list}</fontconfig>`)
  return { path: stdout, env: { LD_LIBRARY_PATH: join(place, 'al2023', 'lib'), FONTCONFIG_PATH: fonts } }
}

function debuggerOf(browser: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = ''
    browser.stderr?.on('data', (text) => {
      said += text
      const [url] = /ws:\/\/\S+/.exec(said) ?? []
      if (url !== undefined) resolve(url)
    })
    browser.once('exit', () => reject(new Error(`the browser ended: ${said}`)))
  })
}

interface Evaluated {
  readonly result: { readonly value?: unknown }
  readonly exceptionDetails?: { readonly exception?: { readonly description?: string } }
}

const complaints = new Set(['Runtime.exceptionThrown', 'Runtime.consoleAPICalled', 'Log.entryAdded'])

const keyCodes: Readonly<Record<string, number>> = { Tab: 9, Enter: 13, Escape: 27, ArrowUp: 38, ArrowDown: 40 }

/** The rules of axe-core that look at colours. */
const colourRules = ['color-contrast', 'link-in-text-block']

let axeSource: Promise<string> | undefined

function axe(): Promise<string> {
  axeSource ??= readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  return axeSource
}

/** A tab of the browser, in which one page after the other can be opened. */
export class Tab {
  readonly #debugger: string
  /** Where the tab is closed. */
  readonly #end: string

  private constructor(host: string, id: string, webSocketDebuggerUrl: string) {
    this.#debugger = webSocketDebuggerUrl
    this.#end = `http://${host}/json/close/${id}`
  }

  static async open({ host }: Browser): Promise<Tab> {
    const made = await fetch(`http://${host}/json/new?about:blank`, { method: 'PUT' })
    const { id, webSocketDebuggerUrl } = (await made.json()) as { id: string; webSocketDebuggerUrl: string }
    return new Tab(host, id, webSocketDebuggerUrl)
  }

  async newPage(width: number): Promise<BrowserPage> {
    const page = new BrowserPage(new WebSocket(this.#debugger))
    await page.begin(width)
    return page
  }

  async close(): Promise<void> {
    await fetch(this.#end)
  }
}

/** A page as a person sees it: what is read and clicked is found by its text. */
export class BrowserPage {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, (result: unknown) => void>()
  #last = 0
  /** Everything in the browser's console: scripts that failed, things the policy forbade, messages of the page. */
  readonly complaints: string[] = []

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.onmessage = ({ data }) => {
      const { id, method, params, result } = JSON.parse(String(data))
      if (id !== undefined) this.#waiting.get(id)?.(result)
      else if (complaints.has(method)) this.complaints.push(JSON.stringify(params))
    }
  }

  async begin(width: number): Promise<void> {
    await new Promise((resolve) => this.#socket.addEventListener('open', resolve))
    for (const domain of ['Runtime', 'Log', 'Page']) await this.#send(`${domain}.enable`)
    await this.resize(width)
  }

  /** Leaves the tab as a new one is: empty, without cookies, stored values and colours. */
  async end(): Promise<void> {
    await this.goto('about:blank')
    await this.#until("location.href === 'about:blank' && document.readyState === 'complete'", 'the page was not left')
    await this.#send('Network.clearBrowserCookies')
    await this.#send('Storage.clearDataForOrigin', { origin: '*', storageTypes: 'all' })
    await this.#send('Runtime.discardConsoleEntries')
    await this.#send('Log.clear')
    const closed = new Promise((resolve) => this.#socket.addEventListener('close', resolve))
    this.#socket.close()
    await closed
  }

  async resize(width: number, height = 900, deviceScaleFactor = 1): Promise<void> {
    await this.#send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor, mobile: false })
  }

  /** The page as a PNG file. */
  async picture(): Promise<Buffer> {
    const { data } = await this.#send<{ data: string }>('Page.captureScreenshot', { format: 'png' })
    return Buffer.from(data, 'base64')
  }

  /** Shows the page as on a system that is set to light or dark colours. */
  async setScheme(scheme: 'light' | 'dark'): Promise<void> {
    const features = [
      { name: 'prefers-color-scheme', value: scheme },
      // Colours that fade would be read half-way.
      { name: 'prefers-reduced-motion', value: 'reduce' },
    ]
    await this.#send('Emulation.setEmulatedMedia', { features })
  }

  /** Presses a key, such as `Tab` or `k` with Ctrl. */
  async key(key: string, { ctrl = false }: { ctrl?: boolean } = {}): Promise<void> {
    const text = key.length === 1 && !ctrl ? { text: key } : key === 'Enter' ? { text: '\r' } : {}
    const code = key.length === 1 ? key.toUpperCase().charCodeAt(0) : (keyCodes[key] ?? 0)
    const event = { key, code: key, windowsVirtualKeyCode: code, modifiers: ctrl ? 2 : 0, ...text }
    await this.#send('Input.dispatchKeyEvent', { type: 'keyDown', ...event })
    await this.#send('Input.dispatchKeyEvent', { type: 'keyUp', ...event })
  }

  /** Writes text where the focus is. */
  async type(text: string): Promise<void> {
    await this.#send('Input.insertText', { text })
  }

  /** The problems of the page, wide and narrow: those of its layout, and with `axe` those that axe-core finds in light and dark. */
  async problems(checks: 'layout' | 'layout and axe'): Promise<readonly unknown[]> {
    const problems: unknown[] = []
    const note = (place: string, found: unknown) => {
      assert.ok(Array.isArray(found), place)
      problems.push(...found.map((problem) => ({ place, problem })))
    }
    for (const width of [1280, 390]) {
      await this.resize(width)
      if (checks === 'layout and axe') {
        await this.setScheme('light')
        note(`at ${width} in light`, await this.accessibilityProblems())
        await this.setScheme('dark')
        // The names, roles and sizes are the same as in light.
        note(`at ${width} in dark`, await this.accessibilityProblems(colourRules))
      }
      note(`at ${width}`, await this.layoutProblems())
    }
    await this.resize(1280)
    return problems
  }

  /** The rules of axe-core that the page breaks, each with the elements. Colours are checked as they are shown. */
  async accessibilityProblems(rules?: readonly string[]): Promise<unknown> {
    const isThere = await this.evaluate("typeof axe === 'object'")
    if (isThere !== true) await this.evaluate(await axe())
    const options = { resultTypes: ['violations'], ...(rules && { runOnly: { type: 'rule', values: rules } }) }
    return this.evaluate(`axe.run(document, ${JSON.stringify(options)}).then(({ violations }) =>
      violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html, failureSummary }) => html.slice(0, 160) + ' ' + failureSummary) })))`)
  }

  /** A page that scrolls sideways, and rows of tables whose cells wrap. */
  async layoutProblems(): Promise<unknown> {
    return this.evaluate(`(({ scrollWidth, clientWidth }) => {
      const middles = (row) => [...row.children].map((cell) => cell.getBoundingClientRect())
        .filter(({ width }) => width > 0).map(({ top, bottom }) => (top + bottom) / 2)
      const wraps = (row) => Math.max(...middles(row)) - Math.min(...middles(row)) > 8
      return [
        ...(scrollWidth > clientWidth ? ['The page scrolls sideways.'] : []),
        ...[...document.querySelectorAll('.tr')].filter(wraps).map((row) => 'The cells of a row wrap: ' + row.innerText),
      ]
    })(document.documentElement)`)
  }

  /** The text of the first frame within the page; empty when the browser shows nothing in it. */
  async frameText(): Promise<string> {
    type Tree = {
      readonly frameTree: { readonly childFrames?: readonly { readonly frame: { readonly id: string } }[] }
    }
    const { frameTree } = await this.#send<Tree>('Page.getFrameTree')
    const frameId = frameTree.childFrames?.[0]?.frame.id
    if (frameId === undefined) return ''
    // A frame that is being loaded answers nothing.
    const world = await this.#send<{ executionContextId: number } | undefined>('Page.createIsolatedWorld', { frameId })
    if (world === undefined) return ''
    const expression = "document.body?.innerText ?? ''"
    const params = { expression, contextId: world.executionContextId, returnByValue: true }
    const answer = await this.#send<Evaluated | undefined>('Runtime.evaluate', params)
    return String(answer?.result.value ?? '')
  }

  async goto(url: string): Promise<void> {
    await this.#send('Page.navigate', { url })
  }

  /** Waits until the page shows the text. */
  async sees(text: string): Promise<void> {
    await this.#until(`document.body?.innerText.includes(${JSON.stringify(text)})`, `the page never showed "${text}"`)
  }

  /** Waits until the page no longer shows the text. */
  async seesNot(text: string): Promise<void> {
    await this.#until(`!document.body?.innerText.includes(${JSON.stringify(text)})`, `the page still shows "${text}"`)
  }

  /** Waits until an expression is true in the page. */
  async until(expression: string): Promise<void> {
    await this.#until(expression, `never: ${expression}`)
  }

  /** Presses the button or link with this label: the first one, or the first within what `within` selects. */
  async press(label: string, within = 'body'): Promise<void> {
    const buttons = JSON.stringify(`${within} button, ${within} a, ${within} [role=option]`)
    const found = `[...document.querySelectorAll(${buttons})]
      .find((each) => (each.innerText.trim() === ${JSON.stringify(label)} || each.ariaLabel === ${JSON.stringify(label)})
        && !each.disabled && each.checkVisibility())`
    await this.#until(`${found} !== undefined`, `there is no button "${label}"`)
    // A page that changes by itself may have taken it away; the test then misses what the press would have done.
    await this.evaluate(`${found}?.click()`)
  }

  /** Writes into the field of this name. */
  async fill(name: string, value: string): Promise<void> {
    const field = `document.querySelector(${JSON.stringify(`[name=${name}]`)})`
    await this.#until(`${field} !== null`, `there is no field "${name}"`)
    await this.evaluate(`{
      const field = ${field}
      field.value = ${JSON.stringify(value)}
      for (const name of ['input', 'change']) field.dispatchEvent(new Event(name, { bubbles: true }))
    }`)
  }

  async evaluate(expression: string): Promise<unknown> {
    const answer = await this.#send<Evaluated | undefined>('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    })
    assert.ok(answer, 'the page was left meanwhile')
    assert.equal(answer.exceptionDetails, undefined, answer.exceptionDetails?.exception?.description)
    return answer.result.value
  }

  async #until(expression: string, otherwise: string): Promise<void> {
    // A page that is being left cannot be asked; the next one can.
    const met = () => this.evaluate(`Boolean(${expression})`).catch(() => false)
    await eventually(otherwise, met).catch(async (error: Error) => {
      assert.fail(`${error.message}; it shows:\n${await this.evaluate('document.body?.innerText')}`)
    })
  }

  #send<T>(method: string, params: object = {}): Promise<T> {
    return new Promise((resolve) => {
      this.#waiting.set(++this.#last, resolve as (result: unknown) => void)
      this.#socket.send(JSON.stringify({ id: this.#last, method, params }))
    })
  }
}
