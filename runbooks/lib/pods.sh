# runbooks/lib/pods.sh: after lib/strict.sh, on a node of Kubernetes. What of its pods outlives SIGKILL.
# shellcheck shell=bash

# Print "POD PID/TID STATE COMM WCHAN" of each thread of a pod that has got SIGKILL and is still there.
killed_threads() {
  local status task pod
  { grep -lsE '^(SigPnd|ShdPnd):[[:space:]]+[0-9a-f]*[13579bdf][0-9a-f]{2}$' /proc/[0-9]*/task/[0-9]*/status || [ $? -le 2 ]; } |
    while read -r status; do
      task=${status%/status}
      pod=$(sed -nE 's,^.*[/-]pod([0-9a-f]{8}([_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}).*$,\1,p' "$task/cgroup" 2>/dev/null | sed -n '1{y/_/-/;p}' || true)
      [ -n "$pod" ] || continue
      echo "$pod $(awk '/^Tgid/ { print $2 }' "$status")/${task##*/} $(awk '/^State/ { print $2 }' "$status") $(head -n 1 "$task/comm" | tr ' ' _) $(cat "$task/wchan")" 2>/dev/null || true
    done
}

# Succeed when every killed thread of a pod is in state D, which only a boot ends; 77 while one is about to end.
only_d_is_left() {
  local threads
  threads=$(killed_threads)
  [ -n "$threads" ] || { echo 'no pod on this node outlives SIGKILL'; return 0; }
  echo "killed, and still there: pod, pid/tid, state, command, where it waits"
  echo "$threads"
  ! awk '$3 != "D" && $3 != "Z"' <<<"$threads" | grep . >/dev/null || return 77
}
