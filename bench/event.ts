/** The event that every scenario sends: about 400 bytes of JSON, the usual size of a webhook. */
export const eventType = 'video.trending'

export const videoId = 'vid_8Qm2Zt5x'

export const payload = JSON.stringify({
  video: { id: videoId, title: 'Kickflip over the Seine at midnight', region: 'FR', language: 'fr' },
  trend: { rank: 3, previousRank: 41, views: 1203344, viewsLastHour: 884210, velocity: 14736.8 },
  sources: ['search', 'browse', 'external'],
  thumbnail: 'https://cdn.example.com/v/8Qm2Zt5x/hq.jpg',
  detectedAt: '2026-11-14T20:47:03.120Z',
  windowSeconds: 3600,
  confidence: 0.97,
  tags: ['sport', 'skateboarding', 'paris'],
})

/** The body of a publish request that carries it. */
export const publishBody = `{"eventType":"${eventType}","payload":${payload}}`
