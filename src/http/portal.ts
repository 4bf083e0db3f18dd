import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'

/** The page that a portal link opens: one application's endpoints, messages and dead letters. It has no key of its own. */
export function portalRoute(app: FastifyInstance): void {
  let page: Page | undefined
  app.get('/portal', (_request, reply) => {
    page ??= makePage()
    reply
      .header('content-type', 'text/html; charset=utf-8')
      .header('content-security-policy', page.policy)
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
      .header('cache-control', 'no-cache')
      .send(page.html)
  })
}

interface Page {
  readonly html: string
  /** The policy allows the page's own style and script, and the API of the same origin. */
  readonly policy: string
}

function makePage(): Page {
  const [body, style, script] = ['portal.html', 'portal.css', 'portal.js'].map((name) =>
    readFileSync(new URL(`./portal/${name}`, import.meta.url), 'utf8'),
  ) as [string, string, string]
  const digest = (text: string) => `'sha256-${hash('sha256', text, 'base64')}'`
  return {
    policy: [
      "default-src 'none'",
      `script-src ${digest(script)}`,
      `style-src ${digest(style)}`,
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
    html: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Webhooks</title>
<style>${style}</style>
</head>
<body>
${body}<script type="module">${script}</script>
</body>
</html>
`,
  }
}
