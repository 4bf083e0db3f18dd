/** Line icons on a grid of 16, drawn with the colour of the text. */
const shapes = {
  overview: 'M2 9.5 5.5 6l3 3L14 3.5M14 7V3.5h-3.5M2 13.5h12',
  endpoints: 'M2 8h4m4 0h4M8 6a2 2 0 1 1 0 4 2 2 0 0 1 0-4Z',
  applications: 'M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z',
  messages: 'M2 3.5h12v9H2zM2 4l6 5 6-5',
  dead: 'M3 3l10 10M13 3 3 13',
  workers: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  schedules: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2Zm0 3v3.2L10 10',
  tasks: 'M2.5 4 4 5.5 6.5 3M2.5 10 4 11.5 6.5 9M9 4.5h5M9 10.5h5',
  types: 'M2.5 8.5V3a.5.5 0 0 1 .5-.5h5.5l5 5-6 6zM5.5 5.5h.01',
  keys: 'M10.5 2.5a3 3 0 1 1-2.2 5L3 13v-2.5M5 11l1.5 1.5',
  audit: 'M4 2h6l2.5 2.5V14h-8.5zM6 7h4M6 10h4',
  hooks: 'M8 2v3m0 6v3M2 8h3m6 0h3M8 6a2 2 0 1 1 0 4 2 2 0 0 1 0-4',
  settings: 'M2.5 5h6m3 0h2M2.5 11h2m3 0h6M10 3.5v3M6 9.5v3',
  sources: 'M8 2v7M5 6.5 8 9.5l3-3M2.5 9.5v4h11v-4',
  view: 'M2.5 3.5h11L9.5 8.5v4l-3 1.5v-5.5z',
  search: 'M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9ZM10.5 10.5 14 14',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  check: 'M3 8.5 6.5 12 13 4.5',
  close: 'M4 4l8 8M12 4l-8 8',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  right: 'M6 3.5 10.5 8 6 12.5',
  down: 'M3.5 6 8 10.5 12.5 6',
  up: 'M3.5 10 8 5.5 12.5 10',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M5 3.5v9L12.5 8z',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5',
  plus: 'M8 3v10M3 8h10',
  sun: 'M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7',
  moon: 'M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z',
  out: 'M6.5 2.5h-4v11h4M10 5l3 3-3 3M13 8H6',
  warning: 'M8 2.5 14.5 13.5h-13zM8 6.5v3M8 11.5h.01',
  send: 'M14 2 7 9M14 2 9.5 14 7 9 2 6.5z',
  external: 'M9 2.5h4.5V7M13.5 2.5 7.5 8.5M11 9.5v4H2.5V5h4',
} as const

export type IconName = keyof typeof shapes

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" data-name={name} width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={shapes[name]} />
    </svg>
  )
}

export function Logo() {
  return (
    <svg class="logo" width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M7 11h11M7 16h15M7 21h8" />
      <path class="gate" d="M24 8.5v15" />
    </svg>
  )
}
