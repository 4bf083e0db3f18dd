import { settingNames, settings } from '../src/runtime/settings.ts'

/** Settings that the chart sets itself, from other values. */
const chartSets = new Set(['store', 'listen', 'metricsListen', 'adminKey', 'apiKey', 'encryptionKey'])

const text = { type: 'string' }
const flag = { type: 'boolean' }
const count = { type: 'integer', minimum: 0 }
const port = { type: 'integer', minimum: 1, maximum: 65535 }
const map = { type: 'object' }
const list = { type: 'array' }
const texts = { type: 'object', additionalProperties: text }

function only(properties: Readonly<Record<string, unknown>>) {
  return { type: 'object', additionalProperties: false, properties }
}

/**
 * The schema of the values of the Helm chart. A value that does not exist is refused, so that a slip of the pen is
 * noticed; the settings are those of `sluice config`.
 */
export function helmValuesSchema(): string {
  const allowed = settingNames.filter((name) => !chartSets.has(name))
  const described = allowed.map((name) => [
    name,
    { type: ['string', 'number', 'boolean'], description: settings[name].help },
  ])
  const schema = {
    $schema: 'https://json-schema.org/draft-07/schema#',
    ...only({
      global: map,
      image: only({ repository: text, tag: text, pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'] } }),
      imagePullSecrets: list,
      store: only({
        kind: { enum: ['sqlite', 'postgres'] },
        sqlite: only({ size: { type: 'string', pattern: '^[0-9.]+([KMGT]i?)?$' }, storageClass: text }),
      }),
      secret: only({
        existing: text,
        adminKey: text,
        encryptionKey: text,
        store: { type: 'string', pattern: '^(postgres(ql)?://.+)?$' },
      }),
      settings: only(Object.fromEntries(described)),
      extraEnv: list,
      extraEnvFrom: list,
      extraVolumes: list,
      extraVolumeMounts: list,
      initContainers: list,
      sidecars: list,
      caBundle: only({ configMap: text, key: text }),
      updateStrategy: { enum: ['Recreate', 'RollingUpdate'] },
      api: only({ replicas: { type: 'integer', minimum: 1 }, resources: map }),
      worker: only({
        replicas: count,
        resources: map,
        autoscaling: only({
          enabled: flag,
          minReplicas: { type: 'integer', minimum: 1 },
          maxReplicas: { type: 'integer', minimum: 1 },
          metric: { type: 'string', pattern: '^[a-zA-Z_:][a-zA-Z0-9_:]*$' },
          target: { type: ['integer', 'string'] },
        }),
        keda: only({
          enabled: flag,
          minReplicas: count,
          maxReplicas: { type: 'integer', minimum: 1 },
          prometheus: text,
          metric: { type: 'string', pattern: '^[a-zA-Z_:][a-zA-Z0-9_:]*$' },
          target: { type: ['integer', 'string'] },
        }),
      }),
      service: only({ type: { enum: ['ClusterIP', 'NodePort', 'LoadBalancer'] }, port }),
      ingress: only({ enabled: flag, className: text, annotations: texts, host: text, tlsSecret: text }),
      httpRoute: only({ enabled: flag, annotations: texts, parentRefs: list, hostnames: list }),
      podDisruptionBudget: only({ enabled: flag, maxUnavailable: { type: ['integer', 'string'] } }),
      networkPolicy: only({
        enabled: flag,
        apiFrom: list,
        metricsFrom: list,
        postgresTo: list,
        postgresPort: port,
        endpointPorts: { type: 'array', items: port, minItems: 1 },
        privateNetworks: { type: 'array', items: { type: 'string', pattern: '^[0-9a-fA-F.:]+/[0-9]+$' } },
      }),
      podMonitor: only({ enabled: flag, interval: text, labels: texts }),
      serviceMonitor: only({ enabled: flag, interval: text, labels: texts }),
      prometheusRule: only({ enabled: flag, labels: texts }),
      grafanaDashboard: only({ enabled: flag, labels: texts }),
      serviceAccount: only({ create: flag, name: text, annotations: texts }),
      podAnnotations: texts,
      podLabels: texts,
      nodeSelector: texts,
      tolerations: list,
      affinity: map,
      topologySpreadConstraints: list,
      priorityClassName: text,
      terminationGracePeriodSeconds: { type: 'integer', minimum: 0 },
    }),
  }
  return `${JSON.stringify(schema, null, 2)}\n`
}
