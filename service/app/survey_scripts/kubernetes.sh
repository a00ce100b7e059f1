# service/app/survey_scripts/kubernetes.sh: after frames.sh, on the controller of a cluster. Who has the node NODE_K8S_NAME,
# and what runs there. Free text is quoted as Go does with %+q, so that it stays on its line.
# shellcheck shell=bash
# The dollars are the templates', not the shell's.
kube() { tell "$1" 5 kubectl --cache-dir="${UNSTICK_TARGETS%/*}/kube" --request-timeout=4s "${@:2}"; }

kube cluster get namespace kube-system -o 'jsonpath={.metadata.uid}'
# Nothing is asked of a cluster that does not answer, or is another one.
[ "$code" = 0 ] || finish
[ "${KUBE_SYSTEM_UID:-$said}" = "$said" ] || finish

# shellcheck disable=SC2016
kube node get node "$NODE_K8S_NAME" -o 'go-template=cordoned {{if .spec.unschedulable}}yes{{else}}no{{end}}
{{range $key, $value := .metadata.annotations}}{{if eq $key "unstick/cordoned-by"}}ours {{printf "%+q" $value}}
{{end}}{{end}}{{range .spec.taints}}taint {{printf "%+q" .key}}
{{end}}end'

# kured keeps its lock as an annotation of its own DaemonSet (kured.dev, docs: configuration, --lock-annotation).
# shellcheck disable=SC2016
kube locks get daemonsets --all-namespaces -o 'go-template={{range .items}}
  {{- $space := .metadata.namespace}}{{$name := .metadata.name}}
  {{- range $key, $value := .metadata.annotations}}{{if eq $key "weave.works/kured-node-lock"}}
    {{- printf "lock %+q %+q %+q\n" $space $name $value}}
  {{- end}}{{end}}
{{- end}}{{len .items}} daemonsets'

# shellcheck disable=SC2016
kube pods get pods --all-namespaces --field-selector="spec.nodeName=$NODE_K8S_NAME" -o 'go-template={{range .items}}
  {{- $kind := ""}}{{$owner := ""}}{{$mirror := "no"}}{{$priority := ""}}{{$phase := "Unknown"}}
  {{- range .metadata.ownerReferences}}{{if .controller}}{{$kind = .kind}}{{$owner = .name}}{{end}}{{end}}
  {{- range $key, $value := .metadata.annotations}}{{if eq $key "kubernetes.io/config.mirror"}}{{$mirror = "yes"}}{{end}}{{end}}
  {{- with .spec.priorityClassName}}{{$priority = .}}{{end}}
  {{- with .status.phase}}{{$phase = .}}{{end}}
  {{- printf "pod %+q %+q %+q %+q %+q %+q %+q %+q\n" .metadata.namespace .metadata.name .metadata.uid $phase $kind $owner $priority $mirror}}
{{- end}}{{len .items}} pods'
finish
