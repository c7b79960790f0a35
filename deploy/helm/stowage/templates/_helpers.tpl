{{/* The labels by which pods are selected, of every object as well. */}}
{{- define "stowage.labels" -}}
app.kubernetes.io/component: scheduler
app.kubernetes.io/name: {{ .Release.Name | quote }}
{{- end }}

{{/* What the daemon is given as its configuration. */}}
{{- define "stowage.configuration" -}}
{{- $election := dict "leaderElect" true "resourceName" .Release.Name "resourceNamespace" .Release.Namespace -}}
{{- $head := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $election -}}
{{- toYaml (mergeOverwrite $head (deepCopy .Values.configuration)) -}}
{{- end }}

{{/*
The volume for recordings, empty without one. Values of several files are merged by key, so a file can
change the kind of volume only with a null beside the new one.
*/}}
{{- define "stowage.recordings" -}}
{{- $given := .Values.recordings.volume | default dict -}}
{{- $kept := dict -}}
{{- range $kind, $source := $given }}{{ if not (kindIs "invalid" $source) }}{{ $_ := set $kept $kind $source }}{{ end }}{{ end -}}
{{- if gt (len $kept) 1 }}{{ fail (printf "recordings.volume: expected one kind of volume, got %s; set the others to null" (keys $kept | sortAlpha | join " and ")) }}{{ end -}}
{{- with $kept | default $given }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- define "stowage.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* Where Python finds what `plugins` names: in wheels, and under /plugins of images. */}}
{{- define "stowage.pythonpath" -}}
{{- range $i, $each := . }}{{ if $i }}:{{ end }}/plugins/{{ $each.name }}{{ if $each.wheel }}.whl{{ else }}/plugins{{ end }}{{ end -}}
{{- end }}

{{/* A map of gates as the flag takes them, in the order of their names. */}}
{{- define "stowage.featureGates" -}}
{{- $each := list -}}
{{- range $name, $on := . }}{{ $each = append $each (printf "%s=%t" $name $on) }}{{ end -}}
{{- join "," $each -}}
{{- end }}
