/** Charts of the history; see `GET /history`. */
export function EndpointCharts(_props: { endpoint: string }) {
  return null
}

export function ApplicationCharts(_props: { app: string }) {
  return null
}
