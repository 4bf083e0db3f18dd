import { effect, signal } from '@preact/signals'
import type { PortalLookOut } from '../api/schema.ts'
import { programName } from '../parts/page.tsx'

/** The name, logo and colour of the application's portal. */
export const look = signal<PortalLookOut | undefined>(undefined)

type Rgb = readonly [number, number, number]

const white: Rgb = [255, 255, 255]
const black: Rgb = [16, 17, 19]
/** The contrast that text needs. */
const readable = 4.5

effect(() => {
  const { name, color } = look.value ?? {}
  programName.value = name ?? 'Webhooks'
  const { style } = document.documentElement
  const own = color == null ? undefined : readColour(color)
  if (own === undefined) {
    for (const property of ['--accent', '--accent-fill', '--on-accent', '--info']) style.removeProperty(property)
    return
  }
  style.setProperty(
    '--accent',
    `light-dark(${write(against(own, white, black))}, ${write(against(own, black, white))})`,
  )
  style.setProperty('--accent-fill', write(own))
  style.setProperty('--on-accent', contrast(own, white) >= readable ? '#fff' : '#101113')
})

/** The colour, mixed with another until it can be read on the background. */
function against(colour: Rgb, background: Rgb, towards: Rgb): Rgb {
  for (let share = 0; share < 1; share += 0.05) {
    const mixed = colour.map((part, i) => Math.round(part + ((towards[i] ?? 0) - part) * share)) as unknown as Rgb
    if (contrast(mixed, background) >= readable + 0.4) return mixed
  }
  return towards
}

function readColour(text: string): Rgb | undefined {
  const [, ...parts] = /^#(..)(..)(..)$/.exec(text) ?? []
  return parts.length === 3 ? (parts.map((part) => Number.parseInt(part, 16)) as unknown as Rgb) : undefined
}

function write(colour: Rgb): string {
  return `rgb(${colour.join(' ')})`
}

/** The contrast of two colours, by WCAG. */
function contrast(a: Rgb, b: Rgb): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((part) => {
    const share = part / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
