{{- define "proofmill.fullname" -}}
{{- if contains "proofmill" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-proofmill" (.Release.Name | trunc 30 | trimSuffix "-") }}
{{- end }}
{{- end }}

{{- define "proofmill.selector" -}}
app.kubernetes.io/name: proofmill
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "proofmill.labels" -}}
{{ include "proofmill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: proofmill
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "proofmill.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (ternary (include "proofmill.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "proofmill.image" -}}
{{- with .Values.image -}}
{{ .registry }}/{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The namespaces whose prover pods a NetworkPolicy protects. */}}
{{- define "proofmill.poolNamespaces" -}}
{{ coalesce .Values.networkPolicy.poolNamespaces .Values.watchNamespaces (list .Release.Namespace) | uniq | toJson }}
{{- end }}

{{/* Who may read metrics: the peers of a NetworkPolicy. */}}
{{- define "proofmill.monitoring" }}
{{- range .Values.networkPolicy.monitoringNamespaces }}
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . }}}}
{{- end }}
{{- range .Values.networkPolicy.kubeletCIDRs }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}

{{/* What the operator may do in the namespaces that it watches. Each line is used: nothing is there in advance. */}}
{{- define "proofmill.rules" -}}
- apiGroups: [proofmill.dev]
  resources: [circuits, proverpools]
  verbs: [list, watch]
# Delete: jobs whose time to live has ended.
- apiGroups: [proofmill.dev]
  resources: [proofjobs]
  verbs: [list, watch, delete]
- apiGroups: [proofmill.dev]
  resources: [circuits/status, proofjobs/status, proverpools/status]
  verbs: [patch]
# Where OwnerReferencesPermissionEnforcement is on, owning pods, Secrets and ConfigMaps needs it.
- apiGroups: [proofmill.dev]
  resources: [circuits/finalizers, proofjobs/finalizers, proverpools/finalizers]
  verbs: [update]
# Patch: the annotations that drain and protect a pod.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, patch]
# Inputs of jobs, and created: their output.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create]
# Inputs of jobs (read only with the label proofmill.dev/input: "true"), and the pools' certificates.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
