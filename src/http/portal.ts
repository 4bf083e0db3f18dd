import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** A page whose policy allows its own inline style and script. */
interface InlinePage {
  readonly html: string
  readonly policy: string
}

/** The portal of builds that have no portal of their own: one application's endpoints, messages and dead letters. */
export function portalPage(): InlinePage {
  const [body, style, script] = ['portal.html', 'portal.css', 'portal.js'].map((name) =>
    readFileSync(new URL(`./portal/${name}`, import.meta.url), 'utf8'),
  ) as [string, string, string]
  const digest = (text: string) => `'sha256-${hash('sha256', text, 'base64')}'`
  return {
    html: htmlOf(body, style, script),
    policy: [
      "default-src 'none'",
      `script-src ${digest(script)}`,
      `style-src ${digest(style)}`,
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
  }
}

function htmlOf(body: string, style: string, script: string): string {
  return `<!doctype html>
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
`
}
