import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parse, parseAllDocuments } from 'yaml'
import { measures } from '../../src/metrics/measures.ts'
import { variableOf } from '../../src/runtime/setting-names.ts'
import { settingNames, settings } from '../../src/runtime/settings.ts'
import { packageJson, read, root, runTool, variables, without } from './files.ts'

const chart = 'deploy/helm/sluice'
const noHelm = without('helm', 'version')

interface Resource {
  readonly kind: string
  readonly metadata: { readonly name: string }
  // biome-ignore lint/suspicious/noExplicitAny: the shape depends on the kind.
  readonly spec: any
}

const secrets = { adminKey: 'sk_0123456789abcdefghij', encryptionKey: 'a2V5', store: 'postgres://u:p@db/s' }

function render(values: object): Resource[] {
  const line = ['template', 'release', chart, '--kube-version', '1.34.0', '--values', '-']
  const text = runTool('helm', line, { cwd: root, input: JSON.stringify(values) })
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Resource)
    .filter((resource) => resource !== null)
}

const everything = {
  store: { kind: 'postgres' },
  secret: secrets,
  worker: { autoscaling: { enabled: true } },
  ingress: { enabled: true, tlsSecret: 'tls' },
  networkPolicy: { enabled: true, privateNetworks: ['10.2.0.0/16'] },
  podMonitor: { enabled: true },
  serviceMonitor: { enabled: true },
  httpRoute: { enabled: true, parentRefs: [{ name: 'public' }] },
  prometheusRule: { enabled: true },
  grafanaDashboard: { enabled: true },
}

test('the chart has the version of the package, and scales by a metric that exists', () => {
  const { version, appVersion } = parse(read(`${chart}/Chart.yaml`))
  assert.deepEqual([version, appVersion], [packageJson.version, packageJson.version])
  const { metric } = parse(read(`${chart}/values.yaml`)).worker.autoscaling
  assert(Object.values(measures).some(({ name }) => name === metric))
})

describe('helm', { skip: noHelm }, () => {
  test('lints the chart', () => {
    runTool('helm', ['lint', '--strict', chart, '--set', 'secret.adminKey=x'], { cwd: root })
  })

  test('renders one pod for SQLite', () => {
    const resources = render({ secret: { adminKey: secrets.adminKey } })
    assert.deepEqual(resources.map(({ kind }) => kind).sort(), ['Secret', 'Service', 'ServiceAccount', 'StatefulSet'])
    const { spec } = resources.find(({ kind }) => kind === 'StatefulSet') as Resource
    assert.equal(spec.replicas, 1)
    assert.equal(spec.volumeClaimTemplates[0].metadata.name, 'data')
    checkPods(resources)
  })

  test('renders the fleet for Postgres, with everything that is optional', () => {
    const resources = render(everything)
    const kinds = resources.map(({ kind }) => kind).sort()
    assert.deepEqual(kinds, [
      'ConfigMap',
      'Deployment',
      'Deployment',
      'HTTPRoute',
      'HorizontalPodAutoscaler',
      'Ingress',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'PodDisruptionBudget',
      'PodMonitor',
      'PrometheusRule',
      'Secret',
      'Service',
      'Service',
      'ServiceAccount',
      'ServiceMonitor',
    ])
    const worker = resources.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name.endsWith('-worker'))
    // The autoscaler owns the number.
    assert.equal(worker?.spec.replicas, undefined)
    const rules = resources.find(({ kind }) => kind === 'PrometheusRule')
    assert.deepEqual(rules?.spec.groups, parse(read('deploy/prometheus-rules.yaml')).groups)
    checkPods(resources)
  })

  test('passes every setting on, under its variable and with its value', () => {
    const chartSets = ['store', 'listen', 'metricsListen', 'adminKey', 'apiKey', 'encryptionKey']
    const names = settingNames.filter((name) => !chartSets.includes(name))
    // A number of a values file is a float to Helm, which writes large ones as 5e+07 without a conversion.
    const given = Object.fromEntries(
      names.map((name) => [name, typeof settings[name].fallback === 'number' ? settings[name].fallback : 'x']),
    )
    const [pod] = podsOf(render({ secret: secrets, settings: given }))
    const env = new Map<string, string>(
      pod.containers[0].env.map(({ name, value }: { name: string; value: string }) => [name, value]),
    )
    for (const name of names) assert.equal(env.get(variableOf(name)), String(given[name]), name)
  })

  test('runs other containers, mounts volumes and trusts authorities of the operator', () => {
    const extra = {
      ...{ secret: secrets, caBundle: { configMap: 'company' } },
      extraVolumes: [{ name: 'alerts', configMap: { name: 'alerts' } }],
      extraVolumeMounts: [{ name: 'alerts', mountPath: '/etc/alerts' }],
      extraEnvFrom: [{ secretRef: { name: 'more' } }],
      initContainers: [{ name: 'wait', image: 'busybox' }],
      sidecars: [{ name: 'proxy', image: 'envoy' }],
    }
    for (const kind of ['sqlite', 'postgres']) {
      for (const pod of podsOf(render({ ...extra, store: { kind } }))) {
        const [sluice, sidecar] = pod.containers
        assert.equal(sidecar.name, 'proxy')
        assert.equal(pod.initContainers[0].name, 'wait')
        assert.deepEqual(sluice.envFrom, [{ secretRef: { name: 'more' } }])
        assert.ok(sluice.env.some(({ value }: { value: string }) => value === '/etc/sluice/ca/ca.crt'))
        const mounted = sluice.volumeMounts.map(({ name }: { name: string }) => name).sort()
        const volumes = pod.volumes.map(({ name }: { name: string }) => name)
        // The claim of the StatefulSet is the volume `data`.
        assert.deepEqual(mounted, [...new Set([...volumes, 'data'])].sort())
      }
    }
  })

  test('scales by KEDA or by the autoscaler, and not by both', () => {
    const keda = { enabled: true, maxReplicas: 7 }
    const resources = render({ store: { kind: 'postgres' }, secret: secrets, worker: { keda } })
    const scaled = resources.find(({ kind }) => kind === 'ScaledObject')
    assert.equal(scaled?.spec.maxReplicaCount, 7)
    assert.match(scaled?.spec.triggers[0].metadata.query, /sluice_deliveries_behind\{namespace="default"\}/)
    const worker = resources.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name.endsWith('-worker'))
    assert.equal(worker?.spec.replicas, undefined)
    assert.throws(() => render({ ...everything, worker: { keda, autoscaling: { enabled: true } } }), /not both/)
    assert.throws(() => render({ ...everything, httpRoute: { enabled: true } }), /httpRoute\.parentRefs/)
  })

  test('refuses values that do not exist, and says which secret is missing', () => {
    assert.throws(() => render({ secret: secrets, settings: { publicUl: 'https://x' } }), /publicUl/)
    assert.throws(() => render({ secret: secrets, settings: { listen: '0.0.0.0:1' } }), /listen/)
    assert.throws(() => render({ secret: secrets, replicas: 2 }), /replicas/)
    assert.throws(() => render({}), /Set secret\.adminKey/)
    assert.throws(
      () => render({ store: { kind: 'postgres' }, secret: { ...secrets, encryptionKey: '' } }),
      /encryptionKey/,
    )
  })

  const schemas = process.env.KUBECONFORM_SCHEMAS
  const noSchemas = schemas === undefined ? 'KUBECONFORM_SCHEMAS names no folder of Kubernetes schemas' : false
  test('kubeconform accepts the resources', { skip: without('kubeconform', '-v') || noSchemas }, () => {
    const line = [
      '-strict',
      '-skip',
      'PodMonitor,PrometheusRule,ServiceMonitor,HTTPRoute',
      '-schema-location',
      `${schemas}/{{.ResourceKind}}{{.KindSuffix}}.json`,
    ]
    for (const values of [{ secret: secrets }, everything]) {
      runTool('kubeconform', line, {
        input: render(values)
          .map((resource) => JSON.stringify(resource))
          .join('\n---\n'),
      })
    }
  })
})

// biome-ignore lint/suspicious/noExplicitAny: a pod of Kubernetes.
function podsOf(resources: readonly Resource[]): any[] {
  return resources
    .filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment')
    .map(({ spec }) => spec.template.spec)
}

/** Pods run without rights, know only variables that exist, and mount what they write to. */
function checkPods(resources: readonly Resource[]): void {
  const pods = podsOf(resources)
  assert(pods.length > 0)
  for (const pod of pods) {
    assert.equal(pod.securityContext.runAsNonRoot, true)
    assert.equal(pod.automountServiceAccountToken, false)
    for (const { env, securityContext, volumeMounts } of pod.containers) {
      assert.deepEqual(securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      const names = env.map(({ name }: { name: string }) => name)
      assert.deepEqual(
        names.filter((name: string) => !variables.has(name)),
        [],
      )
      assert.equal(new Set(names).size, names.length)
      assert.deepEqual(volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath).sort(), ['/data', '/tmp'])
    }
  }
}
