{{- define "sluice.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "sluice.selector" . }}
{{- end -}}

{{- define "sluice.secret" -}}
{{- .Values.secret.existing | default (include "sluice.name" .) -}}
{{- end -}}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "sluice.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- /* A setting as its variable: publicUrl → SLUICE_PUBLIC_URL. */ -}}
{{- define "sluice.variable" -}}
SLUICE_{{ . | snakecase | upper }}
{{- end -}}

{{- /* The pod of every workload. Takes root, component, command, resources, and isApi. */ -}}
{{- define "sluice.pod" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
metadata:
  labels:
    {{- include "sluice.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # New values of `secret` start new pods.
    checksum/secret: {{ toJson $values.secret | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "sluice.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: sluice
      image: "{{ $values.image.repository }}:{{ $values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: [{{ .command }}]
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      env:
        - name: SLUICE_LISTEN
          value: 0.0.0.0:8484
        - name: SLUICE_METRICS_LISTEN
          value: 0.0.0.0:9464
        {{- if eq $values.store.kind "sqlite" }}
        - name: SLUICE_STORE
          value: sqlite:/data/sluice.db
        {{- else }}
        - name: SLUICE_STORE
          valueFrom:
            secretKeyRef:
              name: {{ include "sluice.secret" $root }}
              key: store
        {{- end }}
        {{- if or $values.secret.existing $values.secret.encryptionKey }}
        - name: SLUICE_ENCRYPTION_KEY
          valueFrom:
            secretKeyRef:
              name: {{ include "sluice.secret" $root }}
              key: encryptionKey
              optional: {{ eq $values.store.kind "sqlite" }}
        {{- end }}
        {{- if .isApi }}
        - name: SLUICE_ADMIN_KEY
          valueFrom:
            secretKeyRef:
              name: {{ include "sluice.secret" $root }}
              key: adminKey
        {{- end }}
        {{- /* Numbers of a values file are floats; toString would write 50000000 as 5e+07. */}}
        {{- range $name, $value := $values.settings }}
        - name: {{ include "sluice.variable" $name }}
          value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
        {{- end }}
        {{- if $values.caBundle.configMap }}
        - name: SLUICE_CA_FILE
          value: /etc/sluice/ca/{{ $values.caBundle.key }}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- if .isApi }}
        - name: http
          containerPort: 8484
        {{- end }}
        - name: metrics
          containerPort: 9464
      # A first start migrates the store, which can take minutes.
      startupProbe:
        httpGet: { path: /livez, port: metrics }
        periodSeconds: 2
        failureThreshold: 300
      livenessProbe:
        httpGet: { path: /livez, port: metrics }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      {{- if .isApi }}
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 5
        timeoutSeconds: 4
      {{- end }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      volumeMounts:
        - name: tmp
          mountPath: /tmp
        - name: data
          mountPath: /data
        {{- if $values.caBundle.configMap }}
        - name: ca
          mountPath: /etc/sluice/ca
          readOnly: true
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with $values.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if $values.caBundle.configMap }}
    - name: ca
      configMap:
        name: {{ $values.caBundle.configMap }}
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- if ne $values.store.kind "sqlite" }}
    - name: data
      emptyDir: {}
    {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
