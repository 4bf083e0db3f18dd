import { type SettingName, settingNames } from './settings.ts'

/** Headings of the list of settings, each by the setting that it begins with. */
const sections: Partial<Record<SettingName, string>> = {
  store: 'Server',
  allowNetworks: 'Networks that deliveries may reach',
  lease: 'Worker',
  timeout: 'Attempts',
  retryAfterCap: 'Retries and circuits',
  bodyLimit: 'Limits',
  retention: 'Retention, dead letters and alerts',
  requestTimeout: 'Slow clients',
  metricsListen: 'Metrics, shutdown and log',
}

/** The heading that a setting is listed under. */
export const sectionOf: Readonly<Record<SettingName, string>> = sectionsOf()

function sectionsOf(): Record<SettingName, string> {
  let section = ''
  const named = settingNames.map((name) => {
    section = sections[name] ?? section
    return [name, section] as const
  })
  return Object.fromEntries(named) as Record<SettingName, string>
}

/** `inFlight` → `SLUICE_IN_FLIGHT`. */
export function variableOf(name: string): string {
  return `SLUICE_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}

/** `inFlight` → `--in-flight`. */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}
