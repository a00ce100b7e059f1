# runbooks/lib/fusermount.sh: after lib/fuse.sh. FUSE mounts at one path, who uses them, and an unmount
# that leaves alone what is in use. Never touches the path itself. All here only read, except take_down.
# shellcheck shell=bash

# Print the mounts at a path, denied ones too, in the form of `mounts`.
there() {
  local path=${1//\\/\\134}
  path=${path// /\\040}
  [ -n "$path" ] || return 0
  mounts | at="${path//$'\t'/\\011}" awk '$6 == ENVIRON["at"]'
}

# Keep the targets whose connection is mounted at PATH, in whatever namespace; all when PATH is empty.
at() {
  if [ -z "$1" ]; then
    cat
  else
    { there "$1" | awk '{ print "at", $1 }'; cat; } | awk '$1 == "at" { here[$2]; next } $2 in here'
  fi
}

# The looks of lib/fuse.sh at one path: of TYPE, at PATH.
dead_at() { dead "$1" | at "$2"; }
abandoned_at() { abandoned "$1" | at "$2"; }
waited_at() { connections "$1" | with_waiting | at "$2"; }

# Print "used MOUNT_ID PID COMM HOW" for open files and working directories on the connections at PATH.
# What else uses a mount (a mapping, a root) the kernel finds: it refuses the unmount.
in_use() {
  local seen
  seen=$(mount_targets | at "$1")
  [ -n "$seen" ] || return 0
  {
    printf '%s\n' "$seen"
    folders | sed 's,$,/fdinfo,' | { xargs -r grep -rHs '^mnt_id:' || [ $? -eq 123 ]; } |
      sed -nE 's,^(/proc/.*)/fdinfo/[0-9]+:mnt_id:[[:space:]]*([0-9]+)$,open \1 \2,p'
    folders | { xargs -r sh -c 'find "$@" -maxdepth 1 -name cwd -printf "cwd %h %l\n"' sh 2>/dev/null || [ $? -eq 123 ]; }
  } | awk '
    $1 == "connection" { path[$6] = $14; next }
    $1 == "open" { if ($3 in path && !seen[$3, $2]++) print $3, $2, "has it open"; next }
    $1 == "cwd" {
      folder = $2; sub(/^cwd [^ ]+ /, ""); gsub(/\\/, "\\134"); gsub(/ /, "\\040"); gsub(/\t/, "\\011")
      for (id in path) if ($0 == path[id] || index($0, path[id] "/") == 1) print id, folder, "works in it"
    }' | while read -r id folder how; do
    if grep -qs "^$id " "$folder/mountinfo"; then
      echo "used $id ${folder##*/} $(cat "$folder/comm" 2>/dev/null || echo gone) $how"
    fi
  done | sort -u
}

# Print the mounts of connections at PATH, with nothing on top, that nobody waits for and nobody is seen
# to use, and whose server is not provably gone.
idle() {
  local gone used number rest count
  gone=$(abandoned "$1")
  used=$(in_use "$2")
  {
    awk 'NF { $1 = "gone"; print }' <<<"$gone"
    printf '%s\n' "$used"
    folders | sed 's,$,/mountinfo,' | { xargs -r cat 2>/dev/null || [ $? -eq 123 ]; } | awk '!seen[$2]++ { print "parent", $2 }'
    mount_targets "$1" | at "$2"
  } | awk '
    $1 == "gone" { gone[$6]; next }
    $1 == "used" || $1 == "parent" { kept[$2]; next }
    $1 == "connection" && !($6 in gone) && !($6 in kept)' |
    while read -r _ number rest; do
      count=$(waiting "$number")
      [ "$count" -gt 0 ] || echo "connection $number $rest"
    done
}

# Say why nothing at PATH can be unmounted.
why_not() {
  local seen targets
  seen=$(there "$2")
  targets=$(mount_targets "$1" | at "$2")
  if [ -z "$seen" ]; then
    echo "no FUSE file system is mounted at $2"
  elif [ -z "$targets" ]; then
    echo "left alone, of a type or at a place that is never touched (or not of the type asked for): $seen"
  else
    echo 'left alone, somebody waits for it, uses it, or has mounted on top of it:'
    printf '%s\n' "$targets"
    in_use "$2"
    waited_at "$1" "$2"
  fi
}

# Keep the approved mounts of those read, and name the others.
approved_mounts() {
  local now
  now=$(sort)
  comm -13 <(sort "$UNSTICK_TARGETS") - <<<"$now" | sed -n 's/^connection/left alone, not approved: &/p' >&2
  comm -12 <(sort "$UNSTICK_TARGETS") - <<<"$now" | grep . || [ $? -eq 1 ]
}

# Unmount the mounts read; the kernel refuses what is in use (EBUSY), and that is left so. A mount in a
# namespace of its own is taken away by the node's umount: nsenter would run a fusermount that the
# container supplies, as root.
take_down() {
  local id path folder tool
  tool=$(command -v fusermount3 || command -v fusermount || true)
  while read -r _ _ _ _ _ id _ _ _ _ _ _ _ path; do
    folder=$(mounts | awk -v id="$id" '$2 == id && !n++ { print $7 }')
    [ -n "$folder" ] || continue
    printf -v path '%b' "${path//\\/\\0}"     # %b takes \0401 for one character: "a 1" would be lost
    if [ -n "$tool" ] && grep -q "^$id " /proc/self/mountinfo; then
      echo "${tool##*/} -u $path"
      bounded 20 "$tool" -u "$path" || true
    else
      echo "umount $path as $folder sees it"
      bounded 20 umount --no-canonicalize --internal-only --namespace "$folder/ns/mnt" "$path" || true
    fi
  done
}

# Print the approved mounts (of TYPE) that are still there.
still_mounted() { mount_targets "$1" | sort | comm -12 <(sort "$UNSTICK_TARGETS") -; }

# Succeed when the approved mounts are out of every mount table and their connections are gone; 77 when not.
taken_away() {
  local left number since
  left=$(still_mounted "$1")
  [ -z "$left" ] || { echo 'still mounted:'; echo "$left"; return 77; }
  while read -r _ number _ since _; do
    if [ "$(appeared "$number")" = "$since" ]; then
      echo "connection $number still exists; it is also mounted at (nowhere: something has it open): $(
        mounts | awk -v n="$number" '$1 == n { printf "%s ", $6 }')"
      return 77
    fi
  done <"$UNSTICK_TARGETS"
}
