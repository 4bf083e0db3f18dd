import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vite'

const pages = ['index.html', 'portal.html', 'reference.html', 'site.html']
  .map((name) => join(import.meta.dirname, name))
  .filter(existsSync)

/**
 * Four programs: index.html, the dashboard of operators, portal.html, the portal of customers, reference.html, the
 * reference of the API, and site.html, the template of the pages of the documentation (scripts/site). The server sends a strict content security policy, so that nothing may be inlined.
 *
 * `npm run dev:ui` serves the pages with hot reload against a server that runs already: SLUICE_URL names it, and
 * SLUICE_API_KEY signs the requests in. Neither is part of what is built.
 */
const { SLUICE_URL = 'http://127.0.0.1:8484', SLUICE_API_KEY } = process.env

// biome-ignore lint/style/noDefaultExport: Vite reads its configuration from the default export.
export default defineConfig({
  root: import.meta.dirname,
  publicDir: false,
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Read by scripts/licences.ts. Names that begin with a dot are not served.
    license: { fileName: '.licences.json' },
    rolldownOptions: { input: pages },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: {
    proxy: {
      '/api': {
        target: SLUICE_URL,
        headers: SLUICE_API_KEY === undefined ? {} : { authorization: `Bearer ${SLUICE_API_KEY}` },
      },
    },
  },
})
