{{- define "zombiescope.labels" -}}
app.kubernetes.io/name: zombiescope
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "zombiescope.name" -}}
{{- if eq .Release.Name "zombiescope" }}zombiescope{{ else }}{{ printf "%s-zombiescope" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- define "zombiescope.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}
