{{/* weir.labels returns the labels of a daemon. Arguments: root, name. */}}
{{- define "weir.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* weir.config returns the content of weir.yaml for a daemon. Arguments: root, config. */}}
{{- define "weir.config" -}}
{{- mergeOverwrite (deepCopy .root.Values.config) (.config | default dict) | toYaml }}
{{- end }}

{{/* weir.daemon returns the Deployment of a daemon, and its PodDisruptionBudget.
Arguments: root, name, command, port of the admin server, values, pool (only of bootstrap), pools (only of the placer), and
config: keys of weir.yaml that differ for this daemon. */}}
{{- define "weir.daemon" }}
{{- $root := .root }}
{{- $config := include "weir.config" . }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $root.Release.Name }}-{{ .name }}
  labels: {{- include "weir.labels" . | nindent 4 }}
spec:
  replicas: {{ .values.replicas | default 2 }}
  selector:
    matchLabels: {{- include "weir.labels" . | nindent 6 }}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}
  template:
    metadata:
      labels: {{- include "weir.labels" . | nindent 8 }}
      annotations:
        # bootstrap reloads changed files itself; other daemons start again.
        weirkeeper/config: {{ ternary "reloaded" ($config | sha256sum) (eq .command "bootstrap") | quote }}
    spec:
      serviceAccountName: {{ $root.Release.Name }}-weirkeeper
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 40
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with $root.Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "weir.labels" . | nindent 14 }}
      containers:
        - name: {{ .command }}
          {{- with $root.Values.image }}
          image: {{ if .digest }}{{ printf "%s@%s" .repository .digest | quote }}{{ else }}{{ printf "%s:%s" .repository (.tag | default $root.Chart.AppVersion) | quote }}{{ end }}
          {{- end }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy | default "IfNotPresent" }}
          args: {{- concat (list .command "--admin-addr" (printf ":%d" (int .port))) (.values.args | default list) (.pools | default list) | toYaml | nindent 12 }}
          env:
            - {name: CMAN_CLUSTER, value: {{ $root.Values.cluster | quote }}}
            {{- with .pool }}
            - {name: CMAN_POOL, value: {{ . | quote }}}
            {{- end }}
            - {name: WEIR_CONFIG_DIR, value: /etc/weir}
            # The data folder is below the volume, because all users may write to the volume itself.
            - {name: WEIR_DATA, value: /var/lib/weir/data}
            - {name: WEIR_LOG_FORMAT, value: json}
            - {name: CREDENTIALS_DIRECTORY, value: /run/weir/credentials}
          ports:
            - {name: admin, containerPort: {{ .port }}}
            {{- if eq .command "web" }}
            - {name: web, containerPort: 9480}
            {{- end }}
          livenessProbe: {httpGet: {path: /healthz, port: admin}, periodSeconds: 20, timeoutSeconds: 5, failureThreshold: 3}
          readinessProbe: {httpGet: {path: /readyz, port: admin}, periodSeconds: 10, timeoutSeconds: 5}
          {{- with .values.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: config, mountPath: /etc/weir, readOnly: true}
            - {name: credentials, mountPath: /run/weir/credentials, readOnly: true}
            - {name: data, mountPath: /var/lib/weir}
            - {name: tmp, mountPath: /tmp}
      volumes:
        - name: config
          configMap:
            name: {{ $root.Release.Name }}-weirkeeper
            items:
              - {key: {{ if .config }}weir.{{ .name }}.yaml{{ else }}weir.yaml{{ end }}, path: weir.yaml}
              {{- with .pool }}
              - {key: pool.{{ . }}.yaml, path: {{ printf "%s/%s.yaml" $root.Values.cluster . }}}
              {{- end }}
        - {name: credentials, secret: {secretName: {{ .values.secret | quote }}, defaultMode: 0440}}
        - {name: data, emptyDir: {}}
        - {name: tmp, emptyDir: {}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $root.Release.Name }}-{{ .name }}
  labels: {{- include "weir.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "weir.labels" . | nindent 6 }}
{{- end }}
