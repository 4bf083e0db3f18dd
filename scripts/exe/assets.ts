import { getAsset, getAssetKeys } from 'node:sea'
import { Worker, type WorkerOptions } from 'node:worker_threads'
import type { Folder } from '../../src/assets/assets.ts'

// The exports of src/assets/assets.ts, over the assets inside the executable. `npm run build:exe` puts it in its place.

export function programFolder(path: string): Folder {
  const names = getAssetKeys().filter((key) => key.startsWith(`${path}/`))
  return {
    names: names.map((key) => key.slice(path.length + 1)).sort(),
    read: (name) => Buffer.from(getAsset(`${path}/${name}`)),
  }
}

export function pagesFolder(): Folder {
  return programFolder('ui')
}

export function packageText(): string {
  return getAsset('package.json', 'utf8')
}

export function mapOf(path: string): string | undefined {
  return path === process.execPath ? getAsset('main.js.map', 'utf8') : undefined
}

export function startThread(path: string, options: WorkerOptions): Worker {
  return new Worker(getAsset(`${path}.js`, 'utf8'), { ...options, eval: true, execArgv: [] })
}
