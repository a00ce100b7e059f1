#!/usr/bin/env bash
# unstick-node-metrics.sh [DIRECTORY]: write unstick-node.prom for the textfile collector of node_exporter.
#
# Made for a node on which things hang. It touches no path below a FUSE mount (stat, ls, df, lsof would hang), reads no
# /proc/PID/cmdline, and waits for no look longer than UNSTICK_SECONDS. Each look runs by itself: one that does not
# come back is left behind, and is not begun again before it has ended. What was not seen is absent from the file and
# has unstick_node_look_success 0; it is never 0. Exit 0, unless the file itself cannot be written.
set -euo pipefail
shopt -s inherit_errexit nullglob
export LC_ALL=C TZ=UTC
PATH=${PATH:-/usr/bin:/bin}:/usr/sbin:/sbin:/usr/local/bin

directory=${1:-/var/lib/prometheus/node-exporter}
export UNSTICK_STATE=${UNSTICK_STATE:-/run/unstick-node-metrics}
state=$UNSTICK_STATE                                      # emptied at boot, as it must be: it holds pids
seconds=${UNSTICK_SECONDS:-25}
view=${UNSTICK_VIEW:-machine}                             # "boot" in a booted container, as in unstick's inventory
control=/sys/fs/fuse/connections
containerd=${UNSTICK_CONTAINERD:-/etc/containerd}
devices=${UNSTICK_DEVICES:-/dev:/run/nvidia/driver/dev}   # where device files of GPUs may lie
# Who holds a GPU open without using it (names are cut at 15 bytes), and who mounts FUSE for others.
daemons=${UNSTICK_GPU_DAEMONS:-'nvidia-persiste|nv-hostengine|dcgm-exporter|nvidia-device-p|gpu-feature-dis|nv-fabricmanage|nvidia-imex|nvidia-mig-mana|nvidia-smi'}
helpers='fusermount3?|fusermount-serv|mount\.fuse3?'
looks=(fuse tasks gpu ipc runtime)

# Say why nothing was seen, in the journal, and end the look.
blind() { echo "$look: could not look: $*" >&2; exit 1; }

# Print HELP and TYPE of a gauge.
gauge() { printf '# HELP unstick_node_%s %s\n# TYPE unstick_node_%s gauge\n' "$1" "$2" "$1"; }

# A look by who does not see every process would find nothing wrong.
see_everything() {
  local own first='pid:[4026531836]'                      # PROC_PID_INIT_INO of the kernel
  ((0x$(awk '/^CapEff/ { print $2 }' /proc/self/status) >> 19 & 1)) || blind 'without CAP_SYS_PTRACE'
  own=$(readlink /proc/self/ns/pid)
  [ "$view" != boot ] || first=$(readlink /proc/1/ns/pid)
  [ "$own" = "$first" ] || blind 'in a PID namespace of its own'
}

# Print the /proc folder of each process, and of each thread of one whose first thread is gone: that one shows neither
# files nor mounts.
folders() {
  local zombie
  printf '%s\n' /proc/[0-9]*
  { grep -lsE '^State:[[:space:]]+Z' /proc/[0-9]*/status || [ $? -le 2 ]; } |
    while read -r zombie; do printf '%s\n' "${zombie%/status}"/task/[0-9]*; done
}

# Print "TID STATE FLAGS START CPU" of each thread. The name, which may hold anything, ends at the last ") ".
threads() {
  { find /proc/[0-9]*/task -mindepth 2 -maxdepth 2 -name stat -exec cat {} + 2>/dev/null || true; } |
    sed -nE 's/^([0-9]+) .*\) ([A-Za-z] .*)$/\1 \2/p' | awk '{ print $1, $2, $8, $21, $13 + $14 }'
}

# Print "TID START SWITCHES WCHAN" for the threads read ("TID START").
waits() {
  local tid start wchan
  while read -r tid start; do
    wchan=
    { read -r wchan <"/proc/$tid/wchan"; } 2>/dev/null || [ -n "$wchan" ] || continue
    awk -v head="$tid $start" -v wchan="$wchan" '/ctxt_switches/ { n += $2 } END { if (NR) print head, n, wchan }' \
      "/proc/$tid/status" 2>/dev/null || true
  done
}

# Print "FOLDER COMM TARGET FD" of each descriptor of /dev/fuse or a GPU; nothing is opened for that.
descriptors() {
  local folder fd target comm
  folders | sed 's,$,/fd,' | { xargs -r sh -c 'find "$@" -maxdepth 1 \
    \( -lname "*/fuse" -o -lname "*/fuse (deleted)" -o -lname "*/dev/nvidia[0-9]*" \) -printf "%h %f %l\n" 2>/dev/null' sh || true; } |
    while read -r folder fd target _; do
      folder=${folder%/fd}
      { read -r comm <"$folder/comm"; } 2>/dev/null || continue
      printf '%s %s %s %s\n' "$folder" "${comm//[^A-Za-z0-9._-]/_}" "$target" "$fd"
    done
}

# Keep what this look has seen for the next one, under the clock that no step moves.
keep() { cat >"$state/$look.new" && mv "$state/$look.new" "$state/$look.seen"; }
earlier() { if [ -e "$state/$look.seen" ]; then sed 's/^/was /' "$state/$look.seen"; fi; }
now() { cut -d. -f1 /proc/uptime; }

# FUSE: who waits, for how long nothing has moved, and what mount helpers hold.
look_fuse() {
  local seen held
  see_everything
  if ! awk -v at="$control" '$5 == at { found = / - fusectl / } END { exit !found }' /proc/self/mountinfo; then
    grep -qw fuse /proc/filesystems && blind "fusectl is not mounted (mount -t fusectl fusectl $control)"
    gauge fuse_connections 'FUSE connections that the kernel has.'
    echo unstick_node_fuse_connections 0
    return
  fi
  held=$(descriptors | awk '$3 ~ /\/fuse$/')
  seen=$(echo "at $(now)"; fuse_connections; fuse_waiters; fuse_servers <<<"$held")
  { earlier; echo "$seen"; } | fuse_compare >"$state/fuse.said"
  { echo "$seen"; sed -n '/^since /p' "$state/fuse.said"; } | keep
  gauge fuse_connections 'FUSE connections that the kernel has.'
  awk '$1 == "conn" { n++ } END { print "unstick_node_fuse_connections", n + 0 }' <<<"$seen"
  gauge fuse_waiting 'Requests that wait for an answer, of one connection.'
  awk '$1 == "conn" { printf "unstick_node_fuse_waiting{connection=\"%s\",fstype=\"%s\"} %s\n", $2, $5, $4 }' <<<"$seen"
  gauge fuse_still_seconds 'How long requests have waited while neither those who wait nor a server moved; 0: something moves.'
  awk '$1 == "still" { printf "unstick_node_fuse_still_seconds{connection=\"%s\",fstype=\"%s\"} %s\n", $2, $3, $4 }' "$state/fuse.said"
  gauge fuse_helper_descriptors 'Descriptors of /dev/fuse that mount helpers hold; a mount needs one for a moment.'
  awk -v helpers="^($helpers)$" '$2 ~ helpers { n[$2]++ }
    END { for (h in n) printf "unstick_node_fuse_helper_descriptors{helper=\"%s\"} %d\n", h, n[h] }' <<<"$held"
}

# Print one process of each mount namespace.
namespaces() { folders | sed 's,$,/ns/mnt,' | { xargs -r sh -c 'find "$@" -maxdepth 0 -printf "%l %h\n" 2>/dev/null' sh || true; } |
  awk '!seen[$1]++ { sub(/\/ns$/, "", $2); print $1, $2 }'; }

# Print "mount NUMBER FSTYPE" of each FUSE mount that a process sees. Its connection is named by the device number as one.
mounted() {
  awk '/ - fuse/ && !/ - fusectl / { split($3, d, ":"); for (i = 7; $i != "-"; i++); print "mount", d[1] * 1048576 + d[2], $(i + 1) }' \
    "$1/mountinfo" 2>/dev/null || true
}

# Print "conn NUMBER APPEARED WAITING FSTYPE" of each connection. The number goes to another after an unmount.
fuse_connections() {
  {
    namespaces | while read -r _ folder; do mounted "$folder"; done
    find "$control" -ignore_readdir_race -mindepth 1 -maxdepth 1 -type d -printf 'conn %f %C@\n'
  } | awk -v control="$control" '
    $1 == "mount" { if ($3 ~ /^fuse(blk)?(\.[A-Za-z0-9._-]+)?$/) type[$2] = $3; next }
    { file = control "/" $2 "/waiting"; if ((getline count < file) > 0) print "conn", $2, $3, count, ($2 in type ? type[$2] : "unmapped"); close(file) }'
}

# Print "waiter NUMBER TID START SWITCHES HOW" of threads that sleep in FUSE: "sure" where the process has a file of that
# connection open, "maybe" for each connection with waiting requests that it can see.
fuse_waiters() {
  local tid start switches
  threads | awk '$2 ~ /^[SD]$/ && int($3 / 2097152) % 2 == 0 { print $1, $4 }' | fuse_sleepers | waits |
    sed -n 1,300p | while read -r tid start switches _; do
    { cat "/proc/$tid"/fdinfo/* "/proc/$tid/mountinfo" 2>/dev/null || true; } |
      awk -v id="$tid $start $switches" -v control="$control" '
        $1 == "mnt_id:" { open[$2]; next }
        / - fuse/ && !/ - fusectl / { split($3, d, ":"); n = d[1] * 1048576 + d[2]; sees[n]; if ($1 in open) exact[n] }
        END {
          for (n in exact) { print "waiter", n, id, "sure"; known = 1 }
          for (n in sees) { file = control "/" n "/waiting"; count = 0; getline count < file; if (!known && count > 0) print "waiter", n, id, "maybe" }
        }'
  done
}

# Keep the threads read whose kernel function is FUSE's, or waits for a page that FUSE may have to fill.
fuse_sleepers() {
  local tid start wchan
  while read -r tid start; do
    wchan=
    { read -r wchan <"/proc/$tid/wchan"; } 2>/dev/null || [ -n "$wchan" ] || continue
    case $wchan in
      request_wait_answer | *fuse_get_req* | *fuse_lock_inode* | *fuse_request* | *fuse_wait* | folio_wait_bit* | wait_on_page_bit* | __lock_page*)
        echo "$tid $start" ;;
    esac
  done
}

# Print "server NUMBER PID START CPU BYTES" of those who hold a server's end, and "dead NUMBER" where only mount helpers
# do. Kernels before 6.16 do not tell the connection: there a holder stands for each that it sees, or for any.
fuse_servers() {
  local folder comm fd word number
  while read -r folder comm _ fd; do
    [ -n "$folder" ] || continue
    number=$(awk '$1 == "fuse_connection:" { print $2 }' "$folder/fdinfo/$fd" 2>/dev/null || true)
    word=holder
    [[ ! $comm =~ ^($helpers)$ ]] || word=helper
    echo "$word ${number:-?} $folder"
  done | sort -u | awk '
    $2 == "?" { if ($1 == "holder") untold[$3]; next }
    { told = 1 }
    $1 == "helper" { helped[$2] }
    $1 == "holder" { live[$2]; print }
    END { if (!told) for (f in untold) print "untold", "?", f; for (n in helped) if (!(n in live)) print "dead", n, "-" }' |
    while read -r word number folder; do
      case $word in
        dead) echo "dead $number" ;;
        holder) server "$number" "$folder" ;;
        untold)
          number=$(mounted "$folder" | cut -d' ' -f2 | sort -u)
          for number in ${number:-any}; do server "$number" "$folder"; done
          ;;
      esac
    done
}

# Print the line of one server: when it started, its ticks of CPU, the bytes it has read and written.
server() {
  echo "server $1 ${2##*/} $({ sed 's/^.*) //' "$2/stat" | awk '{ print $20, $12 + $13 }'
    awk '/^[rw]char/ { n += $2 } END { print n + 0 }' "$2/io"; } 2>/dev/null | tr '\n' ' ')"
}

# Print "still NUMBER FSTYPE SECONDS" and "since NUMBER APPEARED AT" of each connection. It stands still while requests
# wait, nobody who surely waits there was answered, and its server used less than 1 % of a CPU and moved under 64 KiB.
fuse_compare() {
  awk '
    $1 == "was" {
      if ($2 == "at") passed = -$3
      else if ($2 == "conn") waited[$3, $4] = $5
      else if ($2 == "since") since[$3, $4] = $5
      else if ($2 == "waiter") { t = $3 FS $4 FS $5; was[t] = $6; on[t] = $3; how[t] = $7 }
      else if ($2 == "server") { cpu[$3, $4, $5] = $6; bytes[$3, $4, $5] = $7 }
      next
    }
    $1 == "at" { at = $2; passed += at }
    $1 == "conn" { conn[$2] = $3; count[$2] = $4; type[$2] = $5 }
    $1 == "waiter" { is[$2 FS $3 FS $4] = $5 }
    $1 == "dead" { stands[$2]; firm[$2] }
    $1 == "server" {
      if (!(($2, $3, $4) in cpu) || $5 - cpu[$2, $3, $4] > passed || $6 - bytes[$2, $3, $4] > 65536) moved[$2]
    }
    END {
      for (t in was) {
        if (is[t] == was[t]) { stands[on[t]]; if (how[t] == "sure") firm[on[t]] }
        else if (how[t] == "sure") moved[on[t]]
        else perhaps[on[t]]
      }
      for (n in conn) {
        from = at
        if (count[n] > 0 && waited[n, conn[n]] > 0 && n in stands && !(n in moved) && !("any" in moved) \
            && (n in firm || !(n in perhaps)) && (n, conn[n]) in since) from = since[n, conn[n]]
        if (count[n] > 0) print "since", n, conn[n], from
        print "still", n, type[n], at - from
      }
    }'
}

# Threads of programs in state D, by the kernel function they wait in, and how long the oldest has not moved at all.
look_tasks() {
  local seen
  see_everything
  seen=$(echo "at $(now)"; threads | awk '$2 == "D" && int($3 / 2097152) % 2 == 0 { print $1, $4 }' | sed -n 1,500p | waits | sed 's/^/task /')
  { earlier; echo "$seen"; } | awk '
    $1 == "was" { if ($2 == "task") since[$3, $4, $5, $6] = $7; next }
    $1 == "at" { at = $2 }
    $1 == "task" { key = $2 SUBSEP $3 SUBSEP $4 SUBSEP $5; print $1, $2, $3, $4, $5, (key in since ? since[key] : at), at }' >"$state/tasks.said"
  cut -d' ' -f1-6 "$state/tasks.said" | keep
  gauge tasks_uninterruptible 'Threads of programs in state D, by the kernel function they wait in.'
  awk '{ n[$5]++ } END { for (w in n) printf "unstick_node_tasks_uninterruptible{wchan=\"%s\"} %d\n", w, n[w] }' "$state/tasks.said"
  gauge tasks_uninterruptible_oldest_seconds 'How long the oldest of them has been seen there without a moment of work.'
  awk '{ age = $7 - $6; if (!($5 in most) || age > most[$5]) most[$5] = age }
    END { for (w in most) printf "unstick_node_tasks_uninterruptible_oldest_seconds{wchan=\"%s\"} %d\n", w, most[w] }' "$state/tasks.said"
}

# Who holds each GPU: processes that live, and those that were killed and are not gone. Without a GPU nothing is said.
look_gpu() {
  local -a found=()
  local folder file held
  see_everything
  while IFS= read -r -d: folder; do for file in "$folder"/nvidia[0-9]*; do found+=("${file##*/}"); done; done <<<"$devices:"
  [ "${#found[@]}" -gt 0 ] || return 0
  held=$(descriptors | awk -v daemons="^($daemons)$" '$3 ~ /\/nvidia[0-9]+$/ && $2 !~ daemons { sub(/.*\//, "", $3); print $1, $3 }' | sort -u)
  gauge gpu_holders 'Processes that hold the GPU open, services of the node left out; dying: killed, and not gone.'
  {
    printf 'device %s\n' "${found[@]}"
    while read -r folder file; do [ -z "$folder" ] || echo "$(life "$folder") $file"; done <<<"$held"
  } | awk '
    $1 == "device" { known[$2]; next }
    { n[$2, $1]++; known[$2] }
    END { for (d in known) { for (i = 1; i <= 2; i++) { s = i == 1 ? "live" : "dying"
      printf "unstick_node_gpu_holders{device=\"%s\",state=\"%s\"} %d\n", d, s, n[d, s] } } }'
}

# Print "dying" for a process of which every thread was killed (SIGKILL is pending) or is on its way out (PF_EXITING).
life() {
  local process=${1%/task/*}
  { sed -nE 's/^[0-9]+ .*\) ([A-Za-z] .*)$/\1/p' "$process"/task/[0-9]*/stat | awk '{ print "flags", $1, $7 }'
    grep -h '^SigPnd' "$process"/task/[0-9]*/status; } 2>/dev/null | awk '
    $1 == "flags" { state[++a] = $2; leaves[a] = int($3 / 4) % 2 }
    $1 == "SigPnd:" { killed[++b] = index("13579bdf", substr($2, length($2) - 2, 1)) > 0 }
    END { for (i = 1; i <= a; i++) if (state[i] !~ /[ZX]/ && !leaves[i] && !killed[i]) { print "live"; exit }; print (a ? "dying" : "live") }'
}

# Whether the running logind deletes what a user leaves, and how many users would lose something. No systemd: nobody does.
look_ipc() {
  local said kind uid users owners name code yes=0 no=0
  [ -d /run/systemd/system ] || return 0
  said=$(timeout -k 1 10 busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager RemoveIPC) ||
    blind 'logind does not say whether it removes IPC'
  users=$(timeout -k 1 10 loginctl list-users --no-legend) || blind 'logind does not say who is logged in'
  awk '$5 ~ "^/dev/(shm|mqueue)/" || ($5 == "/dev/shm" && !/ - tmpfs /) { found = 1 } END { exit found }' /proc/self/mountinfo ||
    blind 'something is mounted in /dev/shm or /dev/mqueue'
  owners=$({
    for kind in shm sem msg; do awk 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } { print $at["uid"] }' "/proc/sysvipc/$kind"; done
    for kind in /dev/shm /dev/mqueue; do [ ! -d "$kind" ] || find "$kind" -ignore_readdir_race -xdev -mindepth 1 -printf '%U\n'; done
  } | sort -nu)
  for uid in $owners; do
    ((uid >= 1000 && (uid < 61184 || uid > 65534))) || continue     # whom logind spares, and who never logs in
    code=0
    name=$(timeout -k 1 5 getent passwd "$uid") || code=$?
    [ "$code" != 2 ] || continue                          # it has no name here
    [ "$code" = 0 ] || blind "who uid $uid is"
    name=${name%%:*}
    [ ! -e "/var/lib/systemd/linger/${name//\\/\\\\}" ] || continue
    if grep -qE "^ *$uid " <<<"$users"; then yes=$((yes + 1)); else no=$((no + 1)); fi
  done
  gauge remove_ipc '1: the running logind deletes the IPC objects of a user at the end of the last login.'
  case $said in
    'b true') echo unstick_node_remove_ipc 1 ;;
    'b false') echo unstick_node_remove_ipc 0 ;;
    *) blind "logind says of RemoveIPC: $said" ;;
  esac
  gauge ipc_owners_without_linger 'Ordinary users who own IPC objects and do not linger.'
  printf 'unstick_node_ipc_owners_without_linger{logged_in="%s"} %d\n' yes "$yes" no "$no"
}

# Runtime handlers of containerd: in any of its files, in what it would read at its next start, in what it runs with.
look_runtime() {
  local dump runs
  command -v containerd >/dev/null && [ -e "$containerd/config.toml" ] || return 0
  command -v crictl >/dev/null || blind 'there is no crictl, which alone knows what containerd runs with'
  dump=$(timeout -k 1 5 containerd --config "$containerd/config.toml" config dump) || blind 'containerd refuses its files'
  runs=$(timeout -k 1 12 crictl --timeout 10s info) || blind 'crictl does not answer'
  runs=$(sed -E 's/^[[:space:]]*//; s/"//g; s/[[:space:]]*,?$//' <<<"$runs" | awk '
    /^runtimes: *\{/ { depth = 1; next }
    depth && /\{\}$/ { if (depth == 1) { sub(/:.*/, ""); print }; next }
    depth && /\{$/ { if (depth++ == 1) { sub(/:.*/, ""); print }; next }
    depth && /\}$/ { depth-- }' | sort -u)
  [ -n "$runs" ] || blind 'crictl tells no handler that containerd runs with'
  gauge runtime_handler 'Whether a handler is in files (disk), in what containerd would load (files), in what it runs with (running).'
  {
    find "$containerd" -name '*.toml' -type f -exec cat {} + | handlers | sed 's/^/disk /'
    handlers <<<"$dump" | sed 's/^/files /'
    sed '/^$/d; s/^/running /' <<<"$runs"
  } | awk '{ has[$2, $1]; name[$2] }
    END { split("disk files running", seen, " "); for (h in name) for (i = 1; i <= 3; i++)
      printf "unstick_node_runtime_handler{handler=\"%s\",seen=\"%s\"} %d\n", h, seen[i], ((h, seen[i]) in has) }'
}

# Print the handlers that TOML of containerd, of any version, defines.
handlers() { sed -nE "s/^[[:space:]]*\[.*\.containerd\.runtimes\.[\"']?([A-Za-z0-9_-]+)[\"']?(\.options)?\][[:space:]]*(#.*)?$/\1/p" | sort -u; }

# Do one look, alone: whatever it has started keeps the lock, also when nothing can end it.
if [ "${1:-}" = --look ]; then
  look=$2
  exec 8>"$state/$look.lock"
  flock -n 8 || blind 'the look before has not ended'
  "look_$look" >"$state/$look.$3.part"
  mv "$state/$look.$3.part" "$state/$look.$3.prom"
  exit 0
fi

install -d -m 0700 "$state"
exec 9>"$state/lock"
flock -n 9 || { echo 'another run is at it' >&2; exit 0; }
rm -f "$state"/*.prom "$state"/*.part
began=$(now)
declare -A pid=() saw=()
for look in "${looks[@]}"; do
  setsid bash "$0" --look "$look" "$$" </dev/null >/dev/null 2>"$state/$look.err" 9>&- &
  pid[$look]=$!
done
while [ "$(($(now) - began))" -lt "$seconds" ] && [ -n "$(jobs -rp)" ]; do sleep 0.1; done

new=$(mktemp "$directory/.unstick-node.XXXXXX")           # node_exporter reads only what ends in .prom
trap 'rm -f "$new"' EXIT
all=1
for look in "${looks[@]}"; do
  if cat "$state/$look.$$.prom" 2>/dev/null; then
    saw[$look]=1
  else
    saw[$look]=0 all=0
    kill -KILL -- "-${pid[$look]}" 2>/dev/null && echo "$look: not ended after $seconds s, left behind" >&2
    cat "$state/$look.err" >&2
  fi
done >"$new"
{
  gauge look_success '1: looked, and what is not in the file is not there; 0: could not look.'
  for look in "${looks[@]}"; do echo "unstick_node_look_success{look=\"$look\"} ${saw[$look]}"; done
  gauge collector_success '1: every look succeeded.'
  echo "unstick_node_collector_success $all"
  gauge collector_last_run_timestamp_seconds 'When this file was written, by the clock of the node.'
  echo "unstick_node_collector_last_run_timestamp_seconds $(date +%s)"
} >>"$new"
chmod 0644 "$new"
mv "$new" "$directory/unstick-node.prom"
trap - EXIT
