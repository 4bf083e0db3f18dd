/** The harm that each of these attacks did before the server bounded it. The table of `npm run test:attack` has both figures. */
export const before: Readonly<Record<string, string>> = {
  'pipelining: 1 × 2,000 pings': 'others waited 80 ms',
  'pipelining: 20 × 2,000 pings': 'others waited 511 ms',
  'pipelining: 100 × 2,000 pings': 'others waited 2.2 s',
  'pipelining: 50 × 5,000 pages, unread': 'others waited 5.8 s; 615 MB',
  'pipelining: 1,000 × 2,400 pages, a heap of 256 MB':
    '4 GB, 41 s of processor time; the process ended at a heap of 1 GB',
  '5000 connections with slow headers': 'others waited 327 ms',
  '64 × 16 × /api/v1/openapi.json': 'p99 of others 170 ms',
  '10000 connects': 'others waited 1.6 s',
  'names that clients resolve': 'all taken; deleting an endpoint .. deleted its application',
  'misspelt fields': 'all ignored; a key for one application was for all of them',
  'drain, receiver hangs': '64 requests, none recorded; 24 of 40 messages never sent',
  'crashes behind a pooler': 'one crash of seven lost accepted messages',
  'a batch of filters': 'others waited 144 to 180 ms',
  '100 Continue, flooded': '20 messages, 20 requests, 0 delivered',
  'a replay asked for again and again': '59 of 200 messages arrived twice',
  'a removed log': '24 of 24 accepted messages lost; every start went on',
}
