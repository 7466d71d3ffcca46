{{/* weir.labels returns the labels of the objects. */}}
{{- define "weir.labels" -}}
app.kubernetes.io/name: weir-kubernetes
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* weir.deletes is "true" if Node objects of ended machines are deleted: the default. */}}
{{- define "weir.deletes" -}}
{{ ne (toString .Values.config.delete_ended_nodes) "false" }}
{{- end }}

{{/* weir.ofPools returns an expression: whether the labels belong to a node of a pool. */}}
{{- define "weir.ofPools" -}}
{{- $pools := list }}
{{- range $pool, $values := .Values.config.pools }}
{{- $terms := list }}
{{- range $key, $value := (($values).selector | default (dict "weirkeeper.dev/pool" $pool)) }}
{{- $terms = append $terms (printf "variables.labels[?%s] == optional.of(%s)" ($key | quote) ($value | quote)) }}
{{- end }}
{{- $pools = append $pools (printf "(%s)" (join " && " $terms)) }}
{{- end }}
{{- join " || " $pools }}
{{- end }}
