// One application's portal: its endpoints, messages and dead letters, with a token that a link brought along.

const view = document.getElementById('view')
const dialog = document.getElementById('dialog')
const notice = document.getElementById('notice')

/** A link to another application than the one that this tab shows. It waits for a click. */
let offered = null

/** The token travels behind the #, which no server sees, and is kept for this tab alone. */
function readSession() {
  const kept = JSON.parse(sessionStorage.getItem('sluice') ?? 'null')
  const given = new URLSearchParams(location.hash.slice(1))
  const [app, token] = [given.get('app'), given.get('token')]
  if (!app || !token) return kept
  history.replaceState(null, '', location.pathname)
  // A link from a stranger must not put the reader into the stranger's application unnoticed.
  if (kept !== null && kept.app !== app) {
    offered = { app, token }
    return kept
  }
  return keep({ app, token })
}

function keep(given) {
  sessionStorage.setItem('sluice', JSON.stringify(given))
  return given
}

let session = readSession()

/** The permissions of the token: the page offers nothing else. */
let may = {}

async function call(method, path, body) {
  const response = await fetch(`api/v1/app/${session.app}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${session.token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  if (response.status === 204) return undefined
  const answer = exactly(await response.text())
  if (response.ok) return answer
  if (response.status === 401) {
    leave('This link has expired. Ask for a new one.')
    throw new Error('expired')
  }
  const { detail } = answer
  const text = Array.isArray(detail)
    ? detail.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`).join('; ')
    : detail
  throw new Error(text ?? `The server answered ${response.status}.`)
}

/** Parsed JSON with numbers as they were written, where the browser can: 1.0 is not 1 in somebody's payload. */
function exactly(text) {
  const keep = (_key, value, context) =>
    typeof value === 'number' && context?.source && JSON.rawJSON && String(value) !== context.source
      ? JSON.rawJSON(context.source)
      : value
  try {
    return JSON.parse(text, keep)
  } catch {
    return {}
  }
}

/** Runs what a person asked for and says how it went. */
function act(work, done) {
  return async (event) => {
    event?.preventDefault()
    const button = event?.submitter ?? event?.currentTarget
    if (button) button.disabled = true
    try {
      await work(event)
      if (done) say(done)
    } catch (error) {
      if (error.message !== 'expired') say(error.message, 'bad')
    } finally {
      if (button) button.disabled = false
    }
  }
}

function say(text, kind = 'good') {
  notice.textContent = text
  notice.className = kind
  notice.hidden = text === ''
}

/** An element: attributes, listeners as functions, and children. Text is never read as markup. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(key, value)
    else if (value === true) made.setAttribute(key, '')
    else if (value !== false && value != null) made.setAttribute(key, value)
  }
  made.append(...children.flat().filter((child) => child != null && child !== false))
  return made
}

const button = (label, click, kind = '') => el('button', { type: 'button', class: kind, click }, label)
/** An instant to the second in UTC, as everywhere; the title has the local time. */
const when = (instant) =>
  instant
    ? el(
        'time',
        { datetime: instant, title: `${new Date(instant).toLocaleString()} local time` },
        `${instant.slice(0, 19).replace('T', ' ')} UTC`,
      )
    : '–'
const pill = (text, kind) => el('span', { class: `pill ${kind}` }, text)

function table(titles, rows) {
  const head = el(
    'thead',
    {},
    el(
      'tr',
      {},
      titles.map((title) => el('th', { scope: 'col' }, title)),
    ),
  )
  const body = rows.map((cells) =>
    el(
      'tr',
      {},
      cells.map((cell) => el('td', {}, cell)),
    ),
  )
  return el('table', {}, head, el('tbody', {}, body))
}

/** A list that goes on at the press of a button. */
async function paged(path, titles, row, empty) {
  const list = el('div')
  let iterator = ''
  const rows = []
  const more = async () => {
    const page = await call('GET', `${path}${path.includes('?') ? '&' : '?'}limit=25${iterator}`)
    rows.push(...page.data.map(row))
    iterator = page.iterator ? `&iterator=${encodeURIComponent(page.iterator)}` : ''
    list.replaceChildren(
      rows.length === 0 ? el('p', { class: 'empty' }, empty) : table(titles, rows),
      ...(page.done ? [] : [el('p', { class: 'end' }, button('More', act(more)))]),
    )
  }
  await more()
  return list
}

// — Endpoints —

const stateKinds = { active: 'good', circuit_open: 'bad', failing: 'bad', disabled: 'bad' }

function stateOf({ state, disabledReason }) {
  const why = { gone: 'disabled: answered 410', failing: 'disabled: failed for too long' }
  const text = (state === 'disabled' && why[disabledReason]) || state.replaceAll('_', ' ')
  return pill(text, stateKinds[state] ?? 'warn')
}

function limitsOf({ throttleRate, throttlePeriodSeconds, concurrency }) {
  const rate = throttleRate == null ? 'no rate limit' : `${throttleRate} per ${throttlePeriodSeconds} s`
  return concurrency == null ? rate : `${rate}, ${concurrency} at once`
}

function endpointCard(endpoint) {
  const path = `/endpoint/${endpoint.id}`
  const change = (body, done) =>
    act(async () => {
      await call('PATCH', path, body)
      await show('endpoints')
    }, done)
  const order = (verb, done) =>
    act(async () => {
      await call('POST', `${path}/${verb}`, {})
      await show('endpoints')
    }, done)
  return el(
    'section',
    { class: 'card' },
    el('div', { class: 'bar' }, el('h2', {}, endpoint.url), stateOf(endpoint)),
    endpoint.description && el('p', {}, endpoint.description),
    el(
      'p',
      { class: 'soft' },
      `${endpoint.eventTypes?.join(', ') ?? 'all event types'} · ${limitsOf(endpoint)} · ${endpoint.id}`,
    ),
    el(
      'div',
      { class: 'row' },
      may.manageEndpoints && [
        button(
          'Edit',
          act(() => edit(endpoint)),
        ),
        endpoint.paused
          ? button('Resume', order('resume', 'Resumed. Waiting messages are sent.'))
          : button('Pause', order('pause', 'Paused. New messages wait.')),
        endpoint.disabled
          ? button('Enable', change({ disabled: false }, 'Enabled. Waiting messages are sent.'))
          : button('Disable', change({ disabled: true }, 'Disabled.')),
      ],
      may.viewSecrets &&
        button(
          'Secret',
          act(() => secret(path)),
        ),
      may.sendAgain &&
        button(
          'Send example',
          act(() => example(path)),
        ),
      may.manageEndpoints &&
        button(
          'Delete',
          act(() => remove(path, endpoint.url)),
          'danger',
        ),
    ),
  )
}

async function endpoints() {
  const { data, done } = await call('GET', '/endpoint?limit=100')
  return el(
    'div',
    {},
    el(
      'div',
      { class: 'bar' },
      el('span', { class: 'soft' }, `${data.length}${done ? '' : '+'} endpoints`),
      may.manageEndpoints &&
        button(
          'Add endpoint',
          act(() => edit()),
          'main',
        ),
    ),
    data.length === 0
      ? el('p', { class: 'empty' }, `No endpoints yet.${may.manageEndpoints ? ' Add one to receive events.' : ''}`)
      : '',
    data.map(endpointCard),
  )
}

function field(label, name, value, attributes = {}) {
  return el('label', {}, label, el('input', { name, value: value ?? '', ...attributes }))
}

/** A number, or null for nothing; a text of names, or null for nothing. */
const number = (text) => (text === '' ? null : Number(text))
const names = (text) => {
  const list = text.split(/[\s,]+/).filter(Boolean)
  return list.length === 0 ? null : list
}

function edit(endpoint) {
  const save = act(
    async (event) => {
      const form = new FormData(event.currentTarget)
      const body = {
        url: form.get('url'),
        description: form.get('description'),
        eventTypes: names(form.get('eventTypes')),
        throttleRate: number(form.get('throttleRate')),
        concurrency: number(form.get('concurrency')),
      }
      if (endpoint) await call('PATCH', `/endpoint/${endpoint.id}`, body)
      else await call('POST', '/endpoint', body)
      dialog.close()
      await show('endpoints')
    },
    endpoint ? 'Saved.' : 'Added.',
  )
  open(
    el(
      'form',
      { submit: save },
      el('h2', {}, endpoint ? 'Edit endpoint' : 'Add endpoint'),
      field('URL', 'url', endpoint?.url, { type: 'url', required: true, placeholder: 'https://example.com/webhooks' }),
      field('Description', 'description', endpoint?.description),
      field('Event types, such as video.* (empty: all)', 'eventTypes', endpoint?.eventTypes?.join(', ')),
      el(
        'div',
        { class: 'pair' },
        field('Requests per second (empty: no limit)', 'throttleRate', endpoint?.throttleRate, {
          type: 'number',
          min: 1,
        }),
        field('Requests at once (empty: the default)', 'concurrency', endpoint?.concurrency, {
          type: 'number',
          min: 1,
        }),
      ),
      el(
        'div',
        { class: 'end' },
        button('Cancel', () => dialog.close()),
        el('button', { class: 'main' }, 'Save'),
      ),
    ),
  )
}

async function secret(path) {
  const { key } = await call('GET', `${path}/secret`)
  const rotate = act(async () => {
    await call('POST', `${path}/secret/rotate`, {})
    await secret(path)
  }, 'Rotated: the old secret signs along for another day.')
  open(
    el('h2', {}, 'Signing secret'),
    el('p', { class: 'soft' }, 'Verify the webhook-signature header of every request with it.'),
    el('pre', {}, key),
    el(
      'div',
      { class: 'end' },
      may.changeSecrets && button('Rotate', rotate, 'danger'),
      button('Close', () => dialog.close()),
    ),
  )
}

async function example(path) {
  const { data } = await (
    await fetch('api/v1/event-type?limit=100', { headers: { authorization: `Bearer ${session.token}` } })
  ).json()
  const send = act(async (event) => {
    await call('POST', `${path}/send-example`, { eventType: new FormData(event.currentTarget).get('eventType') })
    dialog.close()
  }, 'Sent. It appears under Messages.')
  open(
    el(
      'form',
      { submit: send },
      el('h2', {}, 'Send an example'),
      data?.length > 0
        ? el(
            'label',
            {},
            'Event type',
            el(
              'select',
              { name: 'eventType' },
              data.map(({ name }) => el('option', {}, name)),
            ),
          )
        : field('Event type', 'eventType', '', { required: true, placeholder: 'video.trending' }),
      el(
        'div',
        { class: 'end' },
        button('Cancel', () => dialog.close()),
        el('button', { class: 'main' }, 'Send'),
      ),
    ),
  )
}

function remove(path, url) {
  const confirm = act(async () => {
    await call('DELETE', path)
    dialog.close()
    await show('endpoints')
  }, 'Deleted.')
  open(
    el('h2', {}, 'Delete this endpoint?'),
    el('p', {}, `${url} gets nothing more, and what waits for it is cancelled.`),
    el(
      'div',
      { class: 'end' },
      button('Cancel', () => dialog.close()),
      button('Delete', confirm, 'danger'),
    ),
  )
}

function open(...content) {
  dialog.replaceChildren(...content)
  if (!dialog.open) dialog.showModal()
}

// — Messages —

function messages() {
  return paged(
    '/msg?with_content=false',
    ['Event type', 'Message', 'Accepted', ''],
    (message) => [
      el('code', {}, message.eventType),
      el('code', { class: 'soft' }, message.id),
      when(message.timestamp),
      button(
        'Open',
        act(() => detail(message.id)),
      ),
    ],
    'No messages yet.',
  )
}

const statuses = { 0: ['delivered', 'good'], 1: ['waiting', 'warn'], 2: ['failed', 'bad'], 3: ['sending', 'warn'] }

async function detail(id) {
  const [message, destinations, attempts] = await Promise.all([
    call('GET', `/msg/${id}`),
    call('GET', `/msg/${id}/endpoint?limit=50`),
    call('GET', `/attempt/msg/${id}?limit=50`),
  ])
  const goes = await Promise.all(
    destinations.data.map(async (endpoint) => {
      const why = await call('GET', `/msg/${id}/endpoint/${endpoint.id}/why`).catch(() => undefined)
      const resend = act(async () => {
        await call('POST', `/msg/${id}/endpoint/${endpoint.id}/resend`, {})
        await detail(id)
      }, 'It is sent again.')
      const [state, kind] = statuses[endpoint.status] ?? ['ended', 'warn']
      return [endpoint.url, pill(state, kind), why?.detail ?? '', may.sendAgain ? button('Resend', resend) : '']
    }),
  )
  const tries = attempts.data.map((attempt) => [
    when(attempt.timestamp),
    attempt.url || el('code', { class: 'soft' }, attempt.endpointId),
    pill(String(attempt.responseStatusCode || 'no answer'), attempt.status === 0 ? 'good' : 'bad'),
    `${attempt.responseDurationMs ?? 0} ms`,
    el('code', {}, attempt.response ?? ''),
  ])
  open(
    el('h2', {}, message.eventType),
    el('p', { class: 'soft' }, message.id, ' · ', when(message.timestamp)),
    el(
      'pre',
      {},
      typeof message.payload === 'string' ? message.payload : (JSON.stringify(message.payload, null, 2) ?? ''),
    ),
    goes.length > 0 ? table(['Endpoint', 'State', 'Why', ''], goes) : el('p', {}, 'No endpoint asked for it.'),
    tries.length > 0 ? table(['Attempt', 'Endpoint', 'Answer', 'Took', 'Response'], tries) : '',
    el(
      'div',
      { class: 'end' },
      button('Close', () => dialog.close()),
    ),
  )
}

// — Dead letters —

async function dead() {
  const replayAll = act(async () => {
    await call('POST', '/dead/replay', {})
    await show('dead')
  }, 'They are being sent again, after everything that is new.')
  const list = await paged(
    '/dead',
    ['Event type', 'Endpoint', 'Died', 'Reason', ''],
    (letter) => [
      el('code', {}, letter.eventType ?? ''),
      el('code', { class: 'soft' }, letter.endpointId),
      when(letter.diedAt),
      [letter.reason, letter.responseStatusCode ? ` (${letter.responseStatusCode})` : ''].join(''),
      button(
        'Open',
        act(() => detail(letter.msgId)),
      ),
    ],
    'No dead letters: everything arrived, or is still on its way.',
  )
  return el('div', {}, el('div', { class: 'bar' }, el('span'), may.sendAgain && button('Replay all', replayAll)), list)
}

// — The page —

const views = { endpoints, messages, dead }

async function show(name) {
  for (const each of document.querySelectorAll('[data-view]')) {
    if (each.dataset.view === name) each.setAttribute('aria-current', 'page')
    else each.removeAttribute('aria-current')
  }
  view.replaceChildren(await views[name]())
}

function leave(text) {
  session = null
  sessionStorage.removeItem('sluice')
  if (dialog.open) dialog.close()
  document.querySelector('nav').hidden = true
  say('')
  view.replaceChildren(el('p', { class: 'empty' }, text))
}

for (const each of document.querySelectorAll('[data-view]')) {
  each.addEventListener(
    'click',
    act(async () => {
      say('')
      await show(each.dataset.view)
    }),
  )
}

document.getElementById('log-out').addEventListener(
  'click',
  act(async () => {
    await fetch('api/v1/auth/logout', { method: 'POST', headers: { authorization: `Bearer ${session.token}` } })
    leave('You are logged out.')
  }),
)

// Another link in the same tab is another session.
addEventListener('hashchange', () => location.reload())

if (session === null) leave('Open this page with the link you were given.')
else if (offered === null) void act(begin)()
else ask(offered)

async function begin() {
  document.querySelector('nav').hidden = false
  const answer = await fetch('api/v1/auth/access', { headers: { authorization: `Bearer ${session.token}` } })
  may = answer.ok ? (await answer.json()).permissions : {}
  document.getElementById('app-name').textContent = (await call('GET', '')).name
  await show('endpoints')
}

/** Asks before another application takes the place of the one that this tab shows. */
function ask(given) {
  document.querySelector('nav').hidden = true
  const change = () => {
    session = keep(given)
    return begin()
  }
  view.replaceChildren(
    el('p', {}, `This tab shows the application ${session.app}. The link opens another one, ${given.app}.`),
    el('p', {}, button('Stay', act(begin)), ' ', button('Open the other', act(change))),
  )
}
