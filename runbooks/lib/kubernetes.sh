# runbooks/lib/kubernetes.sh: for steps on the controller. The real kubectl, the right cluster, pods and why they stay.
# The controller's env names KUBECONFIG, and as KUBE_SYSTEM_UID the UID of its kube-system. All here only read, except
# cordon, drain and give_back. An accident is "could not look", never "nothing to do".
# shellcheck shell=bash
shopt -s inherit_errexit                    # else bash drops -e inside $( )
set -E
trap '[ $? -ne 1 ] || exit 2' ERR
export LC_ALL=C TZ=UTC
node='' name=$NODE_K8S_NAME pods=''

# Run kubectl for at most SECONDS; its cache goes where the attempt's own files are.
kube_for() {
  timeout --kill-after=5 "$1" kubectl --cache-dir="${UNSTICK_TARGETS%/*}/kube" "${@:2}" </dev/null
}
kube() { kube_for 60 --request-timeout=30s "$@"; }

# Refuse another cluster than the one that the controller is meant for.
right_cluster() {
  local uid ask='kubectl get namespace kube-system -o jsonpath={.metadata.uid}'
  [ -n "${KUBE_SYSTEM_UID-}" ] || { echo "could not look: the controller's env has no KUBE_SYSTEM_UID; it is what this prints: $ask"; return 2; }
  uid=$(kube get namespace kube-system -o 'jsonpath={.metadata.uid}')
  [ "$uid" = "$KUBE_SYSTEM_UID" ] || { echo "refused: wrong cluster: its kube-system has the UID $uid, and KUBE_SYSTEM_UID is $KUBE_SYSTEM_UID"; return 2; }
}

# Set $node to what the cluster knows of the node, "KEY VALUE" a line. An annotation may have any text, and stays on its
# line. What kubectl prints is taken for an answer only when it is there to its end, whatever its exit says.
see_node() {
  right_cluster
  # shellcheck disable=SC2016               # the dollars are the template's
  node=$(kube get node "$name" -o 'go-template=uid {{.metadata.uid}}
boot {{.status.nodeInfo.bootID}}
cordoned {{if .spec.unschedulable}}yes{{else}}no{{end}}
{{range $key, $value := .metadata.annotations}}annotation {{$key}} {{printf "%q" $value}}
{{end}}{{range $key, $value := .metadata.labels}}label {{$key}} {{$value}}
{{end}}{{range .spec.taints}}taint {{.key}}:{{.effect}}
{{end}}{{range .status.conditions}}{{if eq .type "Ready"}}ready {{.status}} {{.lastTransitionTime}}
{{end}}{{end}}{{range $key, $value := .status.allocatable}}{{if eq $key "nvidia.com/gpu"}}gpus {{$value}}
{{end}}{{end}}end')
  [[ $node == 'uid '* && ${node##*$'\n'} = end ]] || { echo "could not look: kubectl says of the node $name: ${node:0:500}"; return 2; }
  node=$(sed -E 's/^(annotation [^ ]+) "(.*)"$/\1 \2/' <<<"$node")
}

# Print the value of a key of $node; note: of one of our annotations.
fact() { sed -n "s,^$1 ,,p" <<<"$node"; }
note() { fact "annotation unstick/$1"; }

# Print the taints that others have set, on one line; the cluster's own tell how the node is.
foreign_taints() { fact taint | { grep -v '^node\.kubernetes\.io/' || true; } | sort | paste -sd,; }

# Refuse nodes that are never drained by a runbook.
may_drain() {
  local why
  why=$(grep -E '^label node-role\.kubernetes\.io/(control-plane|master) |^(label|annotation) unstick/exclude ' <<<"$node" || true)
  [ -z "$why" ] || { echo "refused: this node is excluded: $why"; return 2; }
  [ "$(fact boot)" = "$UNSTICK_BOOT_ID" ] || { echo "refused: the cluster tells of boot $(fact boot) of $name, and the machine is on boot $UNSTICK_BOOT_ID: not the same, or its kubelet is dead"; return 2; }
}

# Print how the node was found: "schedulable", "cordoned by run ID", or "cordoned by others".
found() {
  if [ "$(fact cordoned)" = no ]; then
    echo schedulable
  elif [ -n "$(note cordoned-by)" ]; then
    echo "cordoned by run $(note cordoned-by)"
  else
    echo 'cordoned by others'
  fi
}

patch_node() { kube patch node "$name" --type=strategic -p "{\"metadata\":{\"annotations\":{$1}}${2:+,\"spec\":{\"unschedulable\":$2\}}}"; }

# Mark the node with the run and what it was like, and cordon it in the same act. Others' cordon stays theirs.
cordon() {
  local was marks
  was=$(found)
  marks="\"unstick/run\":\"$UNSTICK_RUN_ID\",\"unstick/since\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\",\"unstick/reboot-sent\":null"
  marks+=",\"unstick/gpus\":\"$(fact gpus)\",\"unstick/taints\":\"$(foreign_taints)\""
  if [ "$was" = 'cordoned by others' ]; then
    patch_node "$marks"
  else
    patch_node "$marks,\"unstick/cordoned-by\":\"$UNSTICK_RUN_ID\"" true
  fi
}

# Succeed when the node carries the mark of this run.
is_mine() { [ "$(note run)" = "$UNSTICK_RUN_ID" ]; }

# Undo our cordon and marks: give_back WAS. What was another run's cordon is that run's again, unless the node is
# proven well; others' cordon stays, and ours stays where somebody has tainted the node since.
give_back() {
  local marks='"unstick/run":null,"unstick/since":null,"unstick/gpus":null,"unstick/taints":null,"unstick/reboot-sent":null'
  if [ "$(note cordoned-by)" != "$UNSTICK_RUN_ID" ]; then
    echo 'the cordon is not of this run, and stays'
    patch_node "$marks"
  elif [ "$(foreign_taints)" != "$(note taints)" ]; then
    echo "it stays cordoned: the taints of others were $(note taints), and are $(foreign_taints)"
    patch_node "$marks"
  elif [[ $1 == 'cordoned by run '* ]]; then
    patch_node "$marks,\"unstick/cordoned-by\":\"${1#cordoned by run }\""
  else
    patch_node "$marks,\"unstick/cordoned-by\":null" false
  fi
}

# Set $pods to the pods on the node, a line each: NAMESPACE NAME UID PHASE OWNER OWNER_UID KIND_OF_POD EMPTYDIR
# ENDS_AT RUNNING GROUP, with - for what is not there. The last line of kubectl tells how many there are: fewer are no look.
see_pods() {
  local count
  # shellcheck disable=SC2016               # the dollars are the template's
  pods=$(kube get pods --all-namespaces --field-selector="spec.nodeName=$name" -o 'go-template={{range .items}}
    {{- $owner := "-"}}{{$uid := "-"}}{{$kind := "plain"}}{{$dir := "-"}}{{$group := "-"}}{{$running := "no"}}
    {{- range .metadata.ownerReferences}}{{if .controller}}
      {{- $owner = printf "%s/%s" .kind .name}}{{$uid = .uid}}{{if eq .kind "DaemonSet"}}{{$kind = "daemon"}}{{end}}
    {{- end}}{{end}}
    {{- range $key, $value := .metadata.annotations}}
      {{- if eq $key "kubernetes.io/config.mirror"}}{{$kind = "mirror"}}{{end}}
    {{- end}}
    {{- range .spec.volumes}}{{range $key, $value := .}}{{if eq $key "emptyDir"}}{{$dir = "emptyDir"}}{{end}}{{end}}{{end}}
    {{- range $key, $value := .metadata.labels}}
      {{- if or (eq $key "job-name") (eq $key "batch.kubernetes.io/job-name") (eq $key "jobset.sigs.k8s.io/jobset-name")
        (eq $key "leaderworkerset.sigs.k8s.io/name") (eq $key "ray.io/cluster") (eq $key "training.kubeflow.org/job-name")
        (eq $key "volcano.sh/job-name")}}{{$group = printf "%s=%s" $key $value}}{{end}}
    {{- end}}
    {{- range .status.containerStatuses}}{{range $key, $value := .state}}
      {{- if eq $key "running"}}{{$running = "yes"}}{{end}}
    {{- end}}{{end}}
    {{- .metadata.namespace}} {{.metadata.name}} {{.metadata.uid}} {{or .status.phase "Unknown"}} {{$owner}} {{$uid}} {{$kind}} {{$dir}}
    {{- with .metadata.deletionTimestamp}} {{.}}{{else}} -{{end}} {{$running}} {{$group}}{{"\n"}}
  {{- end}}{{len .items}} pods')
  count=${pods##*$'\n'} pods=$(sed '$d' <<<"$pods")
  [ "$count" = "$(awk 'NF { n++ } END { print n + 0 }' <<<"$pods") pods" ] ||
    { echo "could not look: kubectl says of the pods on $name: $count"; return 2; }
}

# Print the pods that a drain lets go: neither a DaemonSet's nor a file's of the node.
going() { awk '$7 == "plain"' <<<"$pods" | sort; }

# Print of how many pods and nodes a pod's job is, by its label or its owner: of_job NAMESPACE OWNER_UID GROUP.
of_job() {
  local all
  if [ "$3" != - ]; then
    all=$(kube get pods --namespace="$1" --selector="$3" -o 'go-template={{range .items}}{{.spec.nodeName}}
{{end}}')
  elif [ "$2" != - ]; then
    # shellcheck disable=SC2016             # the dollars are the template's
    all=$(kube get pods --namespace="$1" -o 'go-template={{range .items}}{{$node := .spec.nodeName}}{{range .metadata.ownerReferences}}{{.uid}} {{$node}}
{{end}}{{end}}' | awk -v uid="$2" '$1 == uid { print $2 }')
  else
    return 0
  fi
  echo ", 1 of $(wc -l <<<"$all") pods of ${3/#-/its owner} on $(sort -u <<<"$all" | wc -l) nodes"
}

# Ask the server, as a dry run, whether a pod may be evicted; print its words when not: may_evict NAMESPACE NAME UID.
may_evict() {
  local body said
  body="{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"namespace\":\"$1\",\"name\":\"$2\"},\"deleteOptions\":{\"dryRun\":[\"All\"],\"preconditions\":{\"uid\":\"$3\"}}}"
  said=$(timeout --kill-after=5 60 kubectl --cache-dir="${UNSTICK_TARGETS%/*}/kube" --request-timeout=30s create \
    --raw "/api/v1/namespaces/$1/pods/$2/eviction" -f - <<<"$body" 2>&1 >/dev/null) || printf '%s' "${said//$'\n'/ }"
}

# Write the pods that go where the gate looks for them, each with what is lost. 1 when some block the drain and no
# parameter allows it; each of them is named with the reason.
propose_drain() {
  local space pod uid phase owner owner_uid dir ends group loss said blocked=''
  echo "node $name uid $(fact uid)" >"$UNSTICK_TARGETS"
  while read -r space pod uid phase owner owner_uid _ dir ends _ group; do
    [ -n "$uid" ] || continue
    loss='' said=''
    if [[ $phase != Succeeded && $phase != Failed ]]; then
      if [ "$owner" = - ]; then
        loss+=', unmanaged: nobody starts it again'
        [ "$PARAM_DELETE_UNMANAGED" = true ] || blocked+="$space/$pod has no controller, so nobody would start it again: delete_unmanaged"$'\n'
      fi
      if [ "$dir" != - ]; then
        loss+=', emptyDir: its data is deleted'
        [ "$PARAM_DELETE_EMPTYDIR_DATA" = true ] || blocked+="$space/$pod has an emptyDir, whose data would be deleted: delete_emptydir_data"$'\n'
      fi
      if [ "$ends" = - ] && [ "$PARAM_DISABLE_EVICTION" != true ]; then said=$(may_evict "$space" "$pod" "$uid"); fi
    fi
    case $said in
      '' | *'(NotFound)'*) ;;
      *'(TooManyRequests)'*) echo "$space/$pod cannot go now, and is asked again until drain_timeout: $said" ;;
      *) blocked+="$space/$pod cannot be evicted: $said"$'\n' ;;
    esac
    [ "$ends" = - ] || loss+=", terminating until $ends"
    [ "$PARAM_DISABLE_EVICTION" != true ] || loss+=', deleted whatever its budget says'
    echo "pod $space/$pod uid $uid of $owner$(of_job "$space" "$owner_uid" "$group")$loss" >>"$UNSTICK_TARGETS"
  done < <(going)
  cat "$UNSTICK_TARGETS"
  [ -z "$blocked" ] || { printf 'these pods block the drain; let somebody end them, or ask for a run with the parameter named:\n%s' "$blocked"; return 2; }
}

# Print the pods that would go and were not approved.
unapproved() {
  going | while read -r space pod uid _; do
    grep -q " uid $uid " "$UNSTICK_TARGETS" || echo "$space/$pod uid $uid"
  done
}

# Drain with the real kubectl, by eviction, for at most the seconds given; what loses more stands in parameters.
drain() {
  local flags=(--ignore-daemonsets "--timeout=${1}s") code=0
  [ "$PARAM_DELETE_UNMANAGED" != true ] || flags+=(--force)
  [ "$PARAM_DELETE_EMPTYDIR_DATA" != true ] || flags+=(--delete-emptydir-data)
  [ "$PARAM_DISABLE_EVICTION" != true ] || flags+=(--disable-eviction)
  echo "kubectl drain $name ${flags[*]}"
  kube_for "$(($1 + 60))" drain "$name" "${flags[@]}" 2>&1 || code=$?
  [ "$code" -eq 0 ] || echo "kubectl drain: exit $code"
}

# Say who is still there and why: succeed when nobody is, or only pods whose processes outlive SIGKILL: terminating,
# HEADROOM seconds over their time, and a kubelet that lives still sees them run. 77 when anybody else is.
left_behind() {
  local space pod uid phase owner ends running now over left=0
  now=$(date +%s)
  while read -r space pod uid phase owner _ _ _ ends running _; do
    [ -n "$uid" ] || continue
    if [ "$ends" = - ]; then
      echo "$space/$pod uid $uid of $owner is still there ($phase), and not terminating"
      left=77
      continue
    fi
    over=$((now - $(date -d "$ends" +%s)))
    if [ "$over" -lt "$1" ]; then
      echo "$space/$pod uid $uid is terminating, $over s over its time"
      left=77
    elif [ "$running" = no ]; then
      echo "$space/$pod uid $uid runs no more and is not gone: a finalizer or a volume holds it"
      left=77
    elif [[ $(fact ready) != 'True '* ]]; then
      echo "$space/$pod uid $uid is terminating, and no kubelet tells whether it runs"
      left=77
    else
      echo "$space/$pod uid $uid is stuck: terminating, $over s over its time, and it still runs"
    fi
  done < <(going)
  return "$left"
}

# Succeed when the cluster sees the boot that the machine is on, Ready since, with the GPUs that it had; 77 when not yet.
is_back() {
  local ready since
  ready=$(fact ready) since=$(note since)
  [ "$(fact boot)" != "$UNSTICK_BOOT_ID" ] || { echo "the cluster still tells of the boot before, $UNSTICK_BOOT_ID"; return 77; }
  [ "$(fact boot)" = "$UNSTICK_LAST_BOOT_ID" ] || { echo "the cluster tells of boot $(fact boot), and the machine is on boot $UNSTICK_LAST_BOOT_ID"; return 77; }
  [[ $ready == 'True '* && ${ready#True } > $since ]] || { echo "Ready is $ready, and the run began at $since"; return 77; }
  [ "$(fact gpus)" = "$(note gpus)" ] || { echo "it offers $(fact gpus) GPUs, and had $(note gpus)"; return 77; }
  echo "boot $(fact boot), Ready since ${ready#True }, GPUs: $(fact gpus)"
}
