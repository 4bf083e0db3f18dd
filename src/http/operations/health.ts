import { HealthOut, LeaderOut } from '../answers/health.ts'
import { tagged } from './operation.ts'

export const healthOperations = tagged('Health', {
  'GET /health': {
    id: 'v1.health.get',
    summary: 'Tell whether the store answers',
    description: '503 with the same body when it does not.',
    answers: { 200: HealthOut, 503: HealthOut },
    open: true,
  },
  'GET /leader': {
    id: 'v1.leader.get',
    summary: 'Tell which process runs schedules, retention and sweeps',
    description: 'Null for the moment between the death of one and the next.',
    answers: { 200: LeaderOut },
  },
  'GET /health/ping': {
    id: 'v1.health.ping',
    summary: 'Tell whether the server answers',
    answers: { 204: null },
    open: true,
  },
})
