{{/* The chart's name, cut to what a label value may hold. */}}
{{- define "xeontrain.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
The prefix of every object's name. Cut to 46 characters, so that the longest suffix (-operator-metrics)
still gives a name of at most 63.
*/}}
{{- define "xeontrain.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" }}
{{- else if contains (include "xeontrain.name" .) .Release.Name }}
{{- .Release.Name | trunc 46 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "xeontrain.name" .) | trunc 46 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "xeontrain.operatorName" -}}
{{- printf "%s-operator" (include "xeontrain.fullname" .) }}
{{- end }}

{{/* The immutable part: what selectors hold. Never add to it, a Deployment's selector cannot change. */}}
{{- define "xeontrain.selectorLabels" -}}
app.kubernetes.io/name: {{ include "xeontrain.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "xeontrain.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "xeontrain.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: xeontrain
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "xeontrain.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "xeontrain.operatorName" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name must name an existing service account where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* An image reference. Call with (dict "image" .Values.images.operator "root" $). A digest wins over a tag. */}}
{{- define "xeontrain.image" -}}
{{- $registry := .root.Values.images.registry | trimSuffix "/" -}}
{{- $repository := ternary .image.repository (printf "%s/%s" $registry .image.repository) (eq $registry "") -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest }}
{{- else -}}
{{- printf "%s:%s" $repository (default .root.Chart.AppVersion .image.tag) }}
{{- end -}}
{{- end }}
