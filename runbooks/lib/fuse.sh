# runbooks/lib/fuse.sh: placed, after lib/strict.sh, before every script that needs it. On a sick node:
# touch no path below a FUSE mount (stat, ls, df, lsof hang), read no /proc/PID/cmdline, wait
# for nothing that may be in state D. All here only read, except abort and unmount.
# shellcheck shell=bash
control=/sys/fs/fuse/connections
if ! ((0x$(awk '/^CapEff/ { print $2 }' /proc/self/status) >> 19 & 1)); then
  echo 'could not look: without CAP_SYS_PTRACE'
  exit 2
fi
if ! awk -v at="$control" '$5 == at { type = $0; sub(/.* - /, "", type); found = type ~ /^fusectl / }
  END { exit !found }' /proc/self/mountinfo; then
  echo "could not look: fusectl is not mounted (mount -t fusectl fusectl $control)"
  exit 2
fi

# Print the /proc folder of every process, and of every thread whose process is a zombie:
# a killed trainer is often just that, and its first thread shows neither files nor mounts.
folders() {
  local zombie
  printf '%s\n' /proc/[0-9]*
  { grep -lsE '^State:[[:space:]]+Z' /proc/[0-9]*/status || [ $? -le 2 ]; } |
    while read -r zombie; do printf '%s\n' "${zombie%/status}"/task/[0-9]*; done
}

# Print "CONNECTION MOUNT_ID DEVICE FSTYPE SOURCE MOUNTPOINT FOLDER PARENT" for each FUSE
# mount that a process sees, in any mount namespace but that of a confined look, which has copies of
# all of them and ends with it. Paths keep the kernel's octal escapes.
mounts() {
  folders | sed 's,$,/mountinfo,' | { xargs -r grep -HsE ' - (fuse|tmpfs unstick-look )' || [ $? -eq 123 ]; } | awk '
  function flush(  i) { for (i = 1; i <= kept && !look; i++) print held[i]; kept = look = 0 }
  { split($1, at, "/mountinfo:") }
  at[1] != folder { flush(); folder = at[1] }
  / - tmpfs unstick-look / { look = 1 }
  END { flush() }
  {
    for (i = 7; i < NF && $i != "-"; i++);
    type = $(i + 1)
    if (type != "fuse" && type !~ /^fuse\./) next          # neither fusectl nor fuseblk
    split($3, device, ":")
    held[++kept] = device[2] " " at[2] " " $3 " " type " " (NF > i + 2 ? $(i + 2) : "none") " " $5 " " at[1] " " $2
  }'
}

# Print each mount of a connection that may be touched at all (of TYPE, when given), as a
# target. One denied mount in any namespace denies the connection. After an unmount the next
# mount is given the same number, mount id and path; only the time at which the connection
# appeared is its own.
mount_targets() {
  {
    find "$control" -ignore_readdir_race -mindepth 1 -maxdepth 1 -printf 'appeared %f %T+\n'
    mounts
  } | awk -v only="${1:-}" '
    BEGIN {
      split("fuse.lxcfs fuse.fuse-overlayfs fuse.snapfuse fuse.squashfuse fuse.squashfuse_ll " \
        "fuse.portal fuse.gvfsd-fuse fuse.glusterfs fuse.ceph-fuse fuse.juicefs", types, " ")
      for (i in types) denied[types[i]]
    }
    $1 == "appeared" { since[$2] = $3; next }
    $4 in denied || $6 ~ "^/((run/user|proc|sys|dev|etc|usr)(/.*)?)?$" { never[$1] }
    only != "" && $4 != only { never[$1] }
    { text[$2] = "mount_id " $2 " device " $3 " fstype " $4 " source " $5 " mountpoint " $6; of[$2] = $1 }
    END {
      for (id in text) if (of[id] in since && !(of[id] in never))
        print "connection", of[id], "since", since[of[id]], text[id]
    }' | sort -k2,2n -k6,6n
}

# Print each of these connections once, by its oldest mount.
connections() { mount_targets "${1:-}" | awk '!seen[$2]++'; }

# Print how many requests wait on a connection; 0 when it is gone. The kernel takes the file away
# a moment before its folder (fs/fuse/control.c, fuse_ctl_remove_conn).
waiting() {
  local count
  count=$(cat "$control/$1/waiting" 2>/dev/null) || [ ! -e "$control/$1/waiting" ]
  echo "${count:-0}"
}

# Keep the targets that have requests waiting at this moment.
with_waiting() {
  local number rest count
  while read -r _ number rest; do
    count=$(waiting "$number")
    [ "$count" -eq 0 ] || echo "connection $number $rest"
  done
}

# Print "CONNECTION PID FOLDER COMM" of all who hold a server's end. Kernels before 6.16 do
# not tell the connection, it is "?" then; "hidden" is a process whose files root may not see.
server_holders() {
  folders | sed 's,$,/fd,' | { xargs -r sh -c 'find "$@" -maxdepth 1 \
    \( -lname "*/fuse" -o -lname "*/fuse (deleted)" \) 2>&1' sh || [ $? -eq 123 ]; } |
    sed -nE 's,^(/proc/.*)/fd/([0-9]+)$,\1 \2,p; s,^find: .*(/proc/[0-9/a-z]*)/fd.*Permission denied$,\1 hidden,p' |
    sort -u | while read -r folder fd; do
      number=$fd
      if [ "$fd" != hidden ]; then
        number=$(awk '$1 == "fuse_connection:" { print $2 }' "$folder/fdinfo/$fd" 2>/dev/null || true)
        [ -n "$number" ] || [ -L "$folder/fd/$fd" ] || continue # let go meanwhile: no holder, and no riddle
      fi
      echo "${number:-?} ${folder##*/} $folder $(cat "$folder/comm" 2>/dev/null || echo gone)"
    done | sort -u
}

# Print "server CONNECTION PID FOLDER" and, for known mount helpers (comm is cut at 15 bytes),
# "helper CONNECTION". Where the kernel does not tell the connection: "helper *" when nobody
# else on the node holds a descriptor and none are hidden, else "untold", and whoever sees
# the mount may be its server.
servers() {
  {
    server_holders
    mounts
  } | awk '
    $3 ~ "^/proc/" {
      if ($1 == "hidden") { may[$3] = $2; unknown = 1; next }
      if ($1 != "?") told = 1
      if (NF == 4 && $4 ~ /^(fusermount3?|fusermount-serv|mount\.fuse3?)$/) {
        if ($1 == "?") helped = 1; else print "helper", $1
      } else if ($1 == "?") { maybe[$3] = $2; unknown = 1 }
      else print "server", $1, $2, $3
      next
    }
    $7 in may && !pair[$1, $7]++ { print "server", $1, may[$7], $7 }
    $7 in maybe && !told && !pair[$1, $7]++ { print "server", $1, maybe[$7], $7 }
    END { if (!told && unknown) print "untold"; else if (!told && helped) print "helper", "*" }'
}

# Print the targets with waiting requests whose server is provably gone: a mount helper holds
# them, and nobody else. Where no holder is seen at all, somebody unseen keeps them.
dead() {
  {
    servers
    connections "${1:-}" | with_waiting
  } | awk '
    $1 == "server" { live[$2]; next }
    $1 == "helper" { helped[$2]; next }
    $1 == "untold" { untold = 1; next }
    !untold && !($2 in live) && ($2 in helped || "*" in helped)'
}

# Print "waiter CONNECTION PID TID START SWITCHES WCHAN HOW" for threads that sleep in FUSE or
# on a page which FUSE must fill. The connection is that of a file the process has open
# (sure), else each one with waiting requests that it can see (maybe).
waiters() {
  local pid tid folder wchan
  { find /proc/[0-9]*/task -mindepth 2 -maxdepth 2 -name wchan -exec grep -HsE \
    '^(request_wait_answer|_*fuse_(get_req|lock_inode|request|wait)|folio_wait_bit|wait_on_page_bit|__lock_page)' {} + 2>/dev/null ||
    [ $? -eq 1 ]; } |
    while IFS=/: read -r _ _ pid _ tid _ wchan; do
      folder=/proc/$pid/task/$tid
      {
        cat "$folder"/fdinfo/* || true
        cat "$folder/mountinfo" || true
        sed 's/^.*) /stat /' "$folder/stat" || true
        grep ctxt_switches "$folder/status" || true
      } 2>/dev/null | awk -v id="$pid $tid" -v wchan="$wchan" -v control="$control" '
        $1 == "mnt_id:" { open[$2]; next }
        $1 == "stat" { start = $21; next }
        /ctxt_switches/ { switches += $2; next }
        / - fuse/ && !/ - fuse(ctl|blk) / {
          split($3, device, ":"); n = device[2]; sees[n]
          if ($1 in open) exact[n]
        }
        END {
          for (n in exact) { print "waiter", n, id, start, switches, wchan, "sure"; known = 1 }
          for (n in sees) {
            file = control "/" n "/waiting"; count = 0; getline count < file
            if (!known && count > 0) print "waiter", n, id, start, switches, wchan, "maybe"
          }
        }'
    done | sort
}

# Print all that must stand still for a connection to be hung; servers only when WHO is "all".
movement() {
  local word number pid folder
  connections "${1:-}" | with_waiting
  waiters
  [ "${2:-all}" = all ] || return 0
  servers | while read -r word number pid folder; do
    [ "$word" = server ] || continue
    echo "server $number $pid $({ sed 's/^.*) //' "$folder/stat" | awk '{ print $20, $12 + $13 }'
      awk '/^[rw]char/ { n += $2 } END { print n + 0 }' "$folder/io"; } 2>/dev/null | tr '\n' ' ')"
  done
}

# Print the targets on which, from one look BEFORE to one AFTER, nobody who waited was answered,
# and whose servers used less of a CPU than 1 % of SECONDS and moved hardly a byte (64 KiB).
unmoved() {
  {
    printf '%s\n' "$2" | sed 's/^/before /'
    printf '%s\n' "$3" | sed 's/^/after /'
  } | awk -v seconds="$1" '
    $1 == "before" && $2 == "connection" { first[$3, $5] }
    $1 == "before" && $2 == "waiter" { t = $4 FS $5 FS $6 FS $3; was[t] = $7; on[t] = $3; how[t] = $9 }
    $1 == "before" && $2 == "server" { cpu[$3, $4, $5] = $6; bytes[$3, $4, $5] = $7 }
    $1 == "after" && $2 == "connection" && ($3, $5) in first { text[$3] = substr($0, 7) }
    $1 == "after" && $2 == "waiter" { is[$4 FS $5 FS $6 FS $3] = $7 }
    $1 == "after" && $2 == "server" {
      if (!(($3, $4, $5) in cpu) || $6 - cpu[$3, $4, $5] > seconds || $7 - bytes[$3, $4, $5] > 65536) moved[$3]
    }
    END {
      for (t in was) {
        if (is[t] != was[t]) { if (how[t] == "sure") moved[on[t]]; else perhaps[on[t]] }
        else { still[on[t]]; if (how[t] == "sure") firm[on[t]] }
      }
      for (n in text) if (n in still && !(n in moved) && (n in firm || !(n in perhaps))) print text[n]
    }'
}

# Print the targets (of TYPE) that are not provably dead and did not move for SECONDS. What has
# moved once has moved: it looks after 2, 6, 14, ... seconds, and ends when nothing is left.
# Of WHO: "all" (default), or "waiters" where nobody can tell whose server moved.
hung() {
  local left=$1 pause=2 before after kept gone
  before=$(movement "${2:-}" "${3:-all}")
  kept=$(unmoved "$1" "$before" "$before")
  while [ -n "$kept" ] && [ "$left" -gt 0 ]; do
    pause=$((pause < left ? pause : left))
    sleep "$pause"
    left=$((left - pause)) pause=$((pause * 2))
    after=$(movement "${2:-}" "${3:-all}")
    kept=$(unmoved "$1" "$before" "$after")
  done
  [ -n "$kept" ] || return 0
  gone=$(dead "${2:-}")
  comm -23 <(sort <<<"$kept") <(sort <<<"$gone") | sort -k2,2n
}

# Print the targets that a command prints in each of three looks spread over SECONDS, in their order.
held() { steady "$@" | sort -k2,2n; }

# Write targets where the gate looks for them, and say what else the person should know.
propose() {
  local number
  printf '%s\n' "$1" | tee "$UNSTICK_TARGETS"
  while read -r _ number _; do
    echo "connection $number is mounted $(mounts | awk -v n="$number" '$1 == n && !seen[$2]++' | wc -l) times; who waits (process/thread, program, control group):"
    { waiters | grep "^waiter $number " || true; } | while read -r _ _ pid tid _; do
      echo "  $pid/$tid $(cat "/proc/$pid/comm") $(tail -n 1 "/proc/$pid/cgroup")" || true
    done
  done <<<"$1"
}

# Keep the targets whose connection was approved (its other words may have changed since), and
# name the others.
approved() {
  { sed 's/^/approved /' "$UNSTICK_TARGETS" && cat; } | awk '
    $1 == "approved" { known[$3, $5]; next }
    ($2, $4) in known { print; next }
    { print "left alone, not approved: " $0 >"/dev/stderr" }'
}

# Print when a connection appeared, or nothing.
appeared() { find "$control/$1" -maxdepth 0 -printf '%T+' 2>/dev/null || true; }

# Print the mounts, with nothing on top, of idle connections whose server is provably gone.
abandoned() {
  local number rest count
  {
    servers
    folders | sed 's,$,/mountinfo,' | { xargs -r cat 2>/dev/null || [ $? -eq 123 ]; } | awk '!seen[$2]++ { print "parent", $2 }'
    mount_targets "${1:-}"
  } | awk '
    $1 == "server" { live[$2]; next }
    $1 == "helper" { next }
    $1 == "untold" { untold = 1; next }
    $1 == "parent" { covered[$2]; next }
    !untold && !($2 in live) && !($6 in covered)' |
    while read -r _ number rest; do
      count=$(waiting "$number")
      [ "$count" -gt 0 ] || echo "connection $number $rest"
    done
}

# Unmount the mounts read, with the binary of the node: nsenter would run the container's.
unmount() {
  local id path folder
  while read -r _ _ _ _ _ id _ _ _ _ _ _ _ path; do
    folder=$(mounts | awk -v id="$id" '$2 == id && !n++ { print $7 }')
    [ -n "$folder" ] || continue
    printf -v path '%b' "${path//\\/\\0}"     # %b takes \0401 for one character: "a 1" would be lost
    echo "unmount $path as $folder sees it"
    umount --lazy --no-canonicalize --internal-only --namespace "$folder/ns/mnt" "$path" || true
  done
}

# Abort the connections read. The open file stays with one connection when its number goes
# to another, so that no moment is left between the last look and the act.
abort() {
  local number since outcome=77
  while read -r _ number _ since _; do
    if { [ "$(appeared "$number")" = "$since" ] && echo 1 >&3; } 3>"$control/$number/abort"; then
      echo "aborted connection $number"
      outcome=0
    elif [ "$(appeared "$number")" = "$since" ]; then
      echo "could not abort connection $number"
      return 2
    fi
  done
  return "$outcome"
}

# Succeed when nothing waits on the approved connections any more; 77 when something does.
released() {
  local number since count left=0 threads
  threads=$(waiters)
  while read -r _ number _ since _; do
    [ "$(appeared "$number")" = "$since" ] || continue
    count=$(waiting "$number")
    if [ "$count" -gt 0 ] || grep "^waiter $number " <<<"$threads"; then
      echo "connection $number still has someone waiting"
      left=77
    fi
  done <"$UNSTICK_TARGETS"
  return "$left"
}
