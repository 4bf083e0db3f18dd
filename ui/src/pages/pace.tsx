import { Button } from '../parts/button.tsx'
import { Field } from '../parts/form.tsx'

/** The pace at which deliveries are sent again. */
export function PaceField() {
  return (
    <Field
      name="perSecond"
      label="Deliveries per second"
      schema={{
        type: 'integer',
        minimum: 1,
        maximum: 10_000,
        description: 'Empty for as fast as the limits of each endpoint allow.',
      }}
    />
  )
}

/** The pace of a form; null for as fast as the limits allow. */
export function paceOf(form: FormData): number | null {
  return Number(form.get('perSecond')) || null
}

export function SendAgainFooter({ onClose }: { onClose(): void }) {
  return (
    <footer>
      <Button onPress={onClose}>Cancel</Button>
      <Button type="submit" kind="primary" icon="refresh">
        Send again
      </Button>
    </footer>
  )
}
