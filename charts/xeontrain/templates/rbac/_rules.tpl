{{- define "xeontrain.clusterRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}
{{- define "xeontrain.namespacedRules" -}}
- apiGroups: [xeontrain.dev]
  resources: [xeontrainjobs]
  verbs: [get, list, watch]
{{- end }}
