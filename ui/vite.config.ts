import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vite'

const pages = ['index.html', 'portal.html'].map((name) => join(import.meta.dirname, name)).filter(existsSync)

/** Two pages: `index.html` is the dashboard under `/`, `portal.html` the portal under `/portal`. */
// biome-ignore lint/style/noDefaultExport: Vite reads the default export.
export default defineConfig({
  root: import.meta.dirname,
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    // The policy of the pages allows no inline resource but images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: pages },
  },
})
