/** A process that claims a message, says so, and works until it is killed: `node worker.ts KIND PLACE ID LEASE_SECONDS`. */
import { handleOnce } from '../../receiver/src/index.ts'
import { openStore, type StoreKind } from './stores.ts'

const [kind, place = '', id = '', lease] = process.argv.slice(2)
const { store } = await openStore(kind as StoreKind, place)
await handleOnce(
  store,
  id,
  () => {
    console.log('working')
    return new Promise(() => setInterval(() => {}, 1000))
  },
  { leaseSeconds: Number(lease) },
)
