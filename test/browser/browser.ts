import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { eventually } from '../e2e/eventually.ts'

/** The browser that comes with the development dependencies runs here; elsewhere name one in CHROME. */
export const hasBrowser = process.env.CHROME !== undefined || (process.platform === 'linux' && process.arch === 'x64')

interface Browser {
  /** Where its debugger listens. */
  readonly host: string
  close(): Promise<void>
}

let shared: Promise<Browser> | undefined

after(async () => (await shared)?.close())

/** Opens a page in the browser that the tests of a file share. Each page has a tab, and with it a session, of its own. */
export async function openPage(t: TestContext, width = 1000): Promise<BrowserPage> {
  shared ??= startBrowser()
  const { host } = await shared
  const made = await fetch(`http://${host}/json/new?about:blank`, { method: 'PUT' })
  const { id, webSocketDebuggerUrl } = (await made.json()) as { id: string; webSocketDebuggerUrl: string }
  t.after(async () => void (await fetch(`http://${host}/json/close/${id}`)))
  const page = new BrowserPage(new WebSocket(webSocketDebuggerUrl))
  await page.begin(width)
  return page
}

/** Starts a browser. Unpacking it takes longer than any of the tests. */
async function startBrowser(): Promise<Browser> {
  const place = await mkdtemp(join(tmpdir(), 'sluice-browser-'))
  const { path, env } = await unpack(place)
  const flags = ['--headless', '--no-sandbox', '--no-zygote', '--disable-gpu', '--disable-dev-shm-usage']
  const browser = spawn(path, [...flags, '--remote-debugging-port=0', `--user-data-dir=${join(place, 'user')}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
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

/** A page as a person sees it: what is read and clicked is found by its text. */
export class BrowserPage {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, (result: unknown) => void>()
  #last = 0
  /** What the browser complained about: scripts that failed, things the policy forbade. */
  readonly complaints: string[] = []

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.onmessage = ({ data }) => {
      const { id, method, params, result } = JSON.parse(String(data))
      if (id !== undefined) this.#waiting.get(id)?.(result)
      else if (method === 'Runtime.exceptionThrown' || method === 'Log.entryAdded') {
        this.complaints.push(JSON.stringify(params))
      }
    }
  }

  async begin(width: number): Promise<void> {
    await new Promise((resolve) => this.#socket.addEventListener('open', resolve))
    for (const domain of ['Runtime', 'Log', 'Page']) await this.#send(`${domain}.enable`)
    await this.#send('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: false })
  }

  async goto(url: string): Promise<void> {
    await this.#send('Page.navigate', { url })
  }

  /** Waits until the page shows the text. */
  async sees(text: string): Promise<void> {
    await this.#until(`document.body?.innerText.includes(${JSON.stringify(text)})`, `the page never showed "${text}"`)
  }

  /** Presses the button with this label: the first one, or the first within what `within` selects. */
  async press(label: string, within = 'body'): Promise<void> {
    const found = `[...document.querySelectorAll(${JSON.stringify(`${within} button`)})]
      .find((each) => each.innerText.trim() === ${JSON.stringify(label)} && !each.disabled && each.checkVisibility())`
    await this.#until(`${found} !== undefined`, `there is no button "${label}"`)
    await this.evaluate(`${found}.click()`)
  }

  /** Writes into the field of this name. */
  async fill(name: string, value: string): Promise<void> {
    const field = `document.querySelector(${JSON.stringify(`[name=${name}]`)})`
    await this.#until(`${field} !== null`, `there is no field "${name}"`)
    await this.evaluate(`${field}.value = ${JSON.stringify(value)}`)
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
