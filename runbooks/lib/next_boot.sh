# runbooks/lib/next_boot.sh: after lib/strict.sh. What the next boot changes, and whether the node comes back.
# All here only read, and touch no path below a mount that may hang. A runbook that reboots says:
#   preview=$(next_boot)                  on a line of its own: after `if` and before `||` bash drops -e
#   next_boot_is_good "$preview"          nothing speaks against it, and everything was looked at
#   next_boot_is_bad "$preview"           not just the opposite: of a preview that was cut off neither is true
#   next_boot_targets "$preview"          "boot ID" and each reason against it, a line each: for $UNSTICK_TARGETS
#   next_boot_still_approved "$preview"   in `run`: this boot is approved, and so is each reason against it
# A finding is one line, "HOW BAD: WHAT; WHAT TO DO", the worst first; the last line sums up.
# shellcheck shell=bash
disk=
boot_points=(root mounts target services changes containerd kernel space packages)
boot_units=(ssh sshd amazon-ssm-agent snap.amazon-ssm-agent.amazon-ssm-agent systemd-networkd NetworkManager
  networking kubelet containerd crio docker slurmd munge nvidia-fabricmanager)

next_boot() {
  local point level all='' found worst='' lines
  for point in "${boot_points[@]}"; do
    # In a shell of its own: an accident ends this point alone, and is seen by the missing end.
    mapfile -t lines < <(set -e; "boot_look_$point" 2>&1; echo ended)
    if [ "${lines[-1]-}" = ended ]; then unset 'lines[-1]'; else lines=("could not look: $point: ${lines[*]-}; look by hand"); fi
    for found in "${lines[@]}"; do all+=${found//[[:cntrl:]]/ }$'\n'; done
  done
  for level in 'will not come back' 'comes back ill' 'could not look' note; do
    found=$(grep "^$level: " <<<"$all" | sort -u || true)
    [ -n "$found" ] || continue
    printf '%s\n' "$found"
    [ "$level" = note ] || worst+=", $(wc -l <<<"$found") $level"
  done
  echo "next boot: ${worst:+bad (}${worst#, }${worst:+)}${worst:-good}" | sed 's/).*/)/'
}

next_boot_is_good() { [ "${1##*$'\n'}" = 'next boot: good' ]; }

next_boot_is_bad() { [[ ${1##*$'\n'} == 'next boot: bad ('* ]]; }

next_boot_targets() {
  echo "boot $(cat /proc/sys/kernel/random/boot_id)"
  grep -E '^(will not come back|comes back ill|could not look): ' <<<"$1" || true
}

next_boot_still_approved() {
  local new
  new=$(next_boot_targets "$1" | grep -vxFf "$UNSTICK_TARGETS" || true)
  [ -n "$new" ] || { next_boot_is_good "$1" || next_boot_is_bad "$1"; return; }
  echo "not approved: ${new//$'\n'/$'\n'not approved: }"
  return 77
}

boot_lost() { echo "will not come back: $1; $2"; }
boot_ill() { echo "comes back ill: $1; $2"; }
boot_blind() { echo "could not look: $1; look by hand"; }
boot_note() { echo "note: $1; $2"; }
boot_contained() { bounded 10 systemd-detect-virt --quiet --container >/dev/null; }

# Print the last line of what a command said that `bounded` ran in vain.
boot_why() { sed '$d' <<<"$1" | tail -n 1 | sed 's/^time="[^"]*" //'; }

# The root: read-only after errors, short of a disk, or mounted as it will not be by itself.
boot_look_root() {
  local where source type options place table=$disk/proc/1/mountinfo
  [ -r "$table" ] || table=$disk/proc/self/mountinfo      # a confined look sees its own mounts as read-only
  read -r where type source options < <(awk '$5 == "/" { for (i = 7; $i != "-"; i++); found = $3 " " $(i + 1) " " $(i + 2) " ," $6 "," $(i + 3) "," }
    END { print found }' "$table")
  [ -n "$where" ] || { boot_blind 'the root is not in the mount table'; return; }
  if [[ $type =~ ^(ext[234]|xfs|btrfs|f2fs)$ && $options == *,ro,* ]] &&
    ! awk '$2 == "/" && $4 ~ /(^|,)ro(,|$)/ { found = 1 } END { exit !found }' "$disk/etc/fstab" 2>/dev/null; then
    boot_lost "the root $source is read-only" 'see dmesg; it may want an fsck that nobody answers'
  fi
  if [[ $options == *,degraded,* ]]; then boot_lost "the root $source is mounted degraded" 'give it its disk back, or rootflags=degraded'; fi
  if boot_contained; then return; fi
  place=$(readlink "$disk/sys/dev/block/$where" || true)
  place=$(cat "$disk/sys/fs/$type/${place##*/}/errors_count" 2>/dev/null || echo 0)
  if [ "$place" != 0 ]; then boot_ill "the root $source has errors on record" 'run e2fsck before it is needed'; fi
  [ ! -r "$disk/proc/mdstat" ] || awk '/^md/ { name = $1 } /\[U*_[U_]*\]/ { print name }' "$disk/proc/mdstat" | while read -r place; do
    boot_ill "the array $place is degraded" 'replace its disk first'
  done
}

# Print "FROM HOW WHAT WHERE TYPE OPTIONS" of what is mounted at the next boot, with the kernel's escapes.
boot_mounts() {
  local link name how file
  [ ! -e "$disk/etc/fstab" ] || awk '!/^[[:space:]]*#/ && NF > 2 { print "fstab", "required", $1, $2, $3, (NF > 3 ? $4 : "defaults") }' "$disk/etc/fstab"
  for link in "$disk"/etc/systemd/system/*.{wants,requires}/*.mount; do
    [ -L "$link" ] || continue
    name=${link##*/} how=wanted
    [[ $link != */local-fs.target.requires/* ]] || how=required
    for file in "$disk"/{etc,usr/lib,lib}/systemd/system/"$name"; do [ ! -f "$file" ] || break; done
    [ -f "$file" ] || { boot_blind "there is no file of the enabled $name" >&2; continue; }
    awk -F= -v from="$name" -v how="$how" '/^(What|Where|Type|Options)=/ { name = $1; sub(/^[^=]*=/, ""); gsub(/ /, "\\040"); of[name] = $0 }
      END { print from, how, of["What"], of["Where"], (of["Type"] ? of["Type"] : "auto"), (of["Options"] ? of["Options"] : "defaults") }' "$file"
  done
}

# What is mounted then: a device, server, path or helper that is not there stops the boot where the
# mount is required and local (OnFailure of local-fs.target; systemd.special(7)), else it is only missing.
boot_look_mounts() {
  local from how what where type options why tell way
  while read -r from how what where type options; do
    [[ ,$options, != *,noauto,* && ,$options, != *,x-systemd.automount,* ]] || continue
    why=$(boot_missing "$what" "$where" "$type" ",$options,")
    [ -n "$why" ] || continue
    tell=boot_ill way='it is mounted late or not at all'
    if [[ $why == 'note: '* ]]; then
      tell=boot_note way='nothing waits for it'
    elif [ "$type" = swap ] || [[ ,$options, == *,nofail,* ]]; then
      tell=boot_note way='the boot goes on without it'
    elif [[ $why == 'could not look: '* ]]; then
      tell=boot_blind way=
    elif [[ $how = required && $why != 'empty: '* ]] && ! boot_remote "$type" ",$options,"; then
      tell=boot_lost way='the boot stops in emergency mode: add nofail, or take the line away'
    fi
    why=${why#note: } why=${why#could not look: } why=${why#empty: }
    "$tell" "$from: $where: ${why//$'\n'/, }" "$way"
  done < <(boot_mounts)
}

# Succeed for what systemd mounts with remote-fs.target, which stops no boot (systemd.mount(5)).
boot_remote() {
  [[ $2 == *,_netdev,* || ${1#fuse.} =~ ^(nfs4?|cifs|smb3|smbfs|ceph|glusterfs|lustre|sshfs|davfs|afs|gfs2?|ocfs2|pvfs2|ncpfs)$ ]]
}

# Print why a mount will fail, if it will.
boot_missing() {
  local what where=$2 type=$3 options=$4 kind path host port
  what=${1//\"/}
  printf -v what %b "$what"
  kind=${what%%=*}
  case $what in
    UUID=* | LABEL=* | PARTUUID=* | PARTLABEL=* | ID=*)
      path=${what#*=}
      path=/dev/disk/by-${kind,,}/${path// /\\x20} ;;
    /*) path=$what ;;
    *) path= ;;
  esac
  if [[ $path == /dev/* ]]; then
    if boot_contained; then echo "note: a container leaves devices out"; return; fi
    [ "$path" = "$what" ] || what="$path ($what)"
    [ -e "$disk$path" ] || { echo "there is no $what"; return; }
  elif [[ -n $path && $path != //* ]]; then
    if boot_may_hang "$path"; then echo "could not look: $path is on a mount that may hang"; return; fi
    if [ -e "$disk$path" ]; then :; elif [[ $options =~ ,r?bind, ]]; then
      echo "empty: there is no $path, and systemd makes an empty folder of that name"   # so does systemd 252, tried
      return
    else
      echo "there is no $path"
      return
    fi
  fi
  boot_helper "$type" "$options" "$where"
  if [[ $options == *,nofail,* ]]; then return; fi
  case $type in
    nfs | nfs4) host=${what%%:*} port=2049 ;;
    cifs | smb3) host=${what#//} host=${host%%/*} port=445 ;;
    fuse | fuse.*) boot_fuse_dead "$where"; return ;;
    *) return ;;
  esac
  # shellcheck disable=SC2016 # the words are those of the inner shell
  bounded 5 bash -c ': <"/dev/tcp/$0/$1"' "$host" "$port" >/dev/null || echo "the server $host does not answer on port $port"
}

# Succeed when a path lies on a mount that may hang: the deepest, and of those the last.
boot_may_hang() {
  awk -v path="${1%/}/" '$5 != "/" && index(path, $5 "/") == 1 && length($5) >= deepest {
    deepest = length($5); hangs = / - (fuse|nfs|cifs|smb|ceph|lustre|autofs|9p|virtiofs|beegfs)/
  } END { exit !hangs }' "$disk/proc/self/mountinfo"
}

# Print it when nobody can mount this type: no kernel that knows it, no module, no helper.
boot_helper() {
  local type=$1 helper
  [[ ! $type =~ ^(auto|none|swap|)$ && ! $2 =~ ,r?bind, ]] || return 0
  for helper in "$disk"/{sbin,usr/sbin}/mount."${type%%.*}"*; do [ ! -x "$helper" ] || return 0; done
  if [[ ! $type =~ ^(nfs|cifs|fuse) ]]; then
    [ "$(awk -v type="$type" '$NF == type' "$disk/proc/filesystems" | wc -l)" -eq 0 ] || return 0
    ! grep -qsE "/$type\.ko" "$disk"/lib/modules/*/modules.{dep,builtin} || return 0
  fi
  echo "nothing here mounts the type $type"
}

# Print it when the FUSE mount there is dead now: nobody serves it, or those who wait get no answer.
boot_fuse_dead() {
  local number files look
  number=$(awk -v at="$1" '$5 == at && / - fuse/ { split($3, device, ":"); found = device[2] } END { print found }' "$disk/proc/self/mountinfo")
  [ -n "$number" ] || { echo 'it is not mounted now'; return; }
  files=$({ find "$disk"/proc/[0-9]*/fd -maxdepth 1 -lname '*/fuse' 2>/dev/null || true; } | sed 's,/fd/\([0-9]*\)$,/fdinfo/\1,')
  files=$(xargs -r grep -hs '^fuse_connection:' <<<"$files" || true; echo "${files:+some}")
  if [ -z "$files" ] || { [[ $files == *fuse_connection* ]] && ! grep -qE "^fuse_connection:[[:space:]]*$number\$" <<<"$files"; }; then
    echo 'its server is gone'
    return
  fi
  for look in 1 2 3; do
    look=$(cat "$disk/sys/fs/fuse/connections/$number/waiting" 2>/dev/null || echo 0)
    [ "$look" -gt 0 ] || return 0
    sleep 1
  done
  echo 'its server answers nobody now'
}

boot_look_target() {
  local said
  said=$(bounded 20 systemctl get-default) || { boot_blind "the default target: $(boot_why "$said")"; return; }
  case $said in
    multi-user.target | graphical.target | default.target) ;;
    rescue.target | emergency.target | poweroff.target | halt.target) boot_lost "the next boot goes to $said" 'systemctl set-default multi-user.target' ;;
    *) boot_note "the next boot goes to $said" 'see that it takes in multi-user.target' ;;
  esac
}

# Print "ID LOADED ACTIVE SINCE RELOAD FILE WANTED" of the units there are that must come back. SINCE is in
# seconds of the clock; WANTED are services that want it, or "-".
boot_services() {
  local said up now
  said=$(bounded 20 systemctl show --property=Id,LoadState,ActiveState,ActiveEnterTimestampMonotonic,NeedDaemonReload,FragmentPath,WantedBy,RequiredBy \
    "${boot_units[@]/%/.service}") || { echo "$said" >&2; return 2; }
  read -r up _ <"$disk/proc/uptime"
  now=$(date +%s)
  awk -v boot="$((now - ${up%.*}))" 'BEGIN { RS = ""; FS = "\n" } {
    split("", is)
    for (i = 1; i <= NF; i++) { at = index($i, "="); is[substr($i, 1, at - 1)] = substr($i, at + 1) }
    if (is["LoadState"] == "not-found" || is["Id"] in seen) next
    seen[is["Id"]]; wanted = ""
    n = split(is["WantedBy"] " " is["RequiredBy"], by, " ")
    for (i = 1; i <= n; i++) if (by[i] ~ /\.service$/) wanted = wanted "," by[i]
    print is["Id"], is["LoadState"], is["ActiveState"], int(boot + is["ActiveEnterTimestampMonotonic"] / 1000000), is["NeedDaemonReload"],
      (is["FragmentPath"] ? is["FragmentPath"] : "-"), (wanted ? substr(wanted, 2) : "-")
  }' <<<"$said"
}

# Print the way by which we came: "ssh", "ssm", or nothing.
boot_way_in() {
  case $(cat "$disk/proc/self/cgroup") in
    *amazon-ssm-agent*) echo ssm ;;
    */session-*.scope* | */ssh.service* | */sshd.service* | */ssh@*) echo ssh ;;
  esac
}

# Tell how bad it is that a unit is missing: without the network or our own way in, nobody comes back to us.
boot_without() {
  case $1:$(boot_way_in) in
    systemd-networkd.service:* | NetworkManager.service:* | networking.service:* | ssh*:ssh | ssh*: | *amazon-ssm-agent*:ssm | *amazon-ssm-agent*:) boot_lost "$2" "$3" ;;
    *) boot_ill "$2" "$3" ;;
  esac
}

# Print "yes", "no", "masked" or "by UNIT": whether a unit starts at the next boot, by what is on the disk. What was
# enabled, or masked, in /run alone is gone by then (systemctl(1), is-enabled), unless a generator makes it anew.
boot_starts() {
  local said link
  said=$(bounded 20 systemctl is-enabled "$1") || true
  said=$(tail -n 1 <<<"${said%$'\n'systemctl: exit*}")
  case $said in
    enabled | alias | generated | masked-runtime) echo yes; return ;;
    masked) echo masked; return ;;
    static | indirect | linked | disabled | *-runtime | transient) ;;
    *) echo "could not look: is $1 enabled: $said"; return ;;
  esac
  for link in "$disk"/{{etc,usr/lib,lib}/systemd/system,run/systemd/generator{,.early,.late}}/*.{wants,requires}/"$1"; do
    [ ! -L "$link" ] || { echo yes; return; }
  done
  if [ "$1" = systemd-networkd.service ] && compgen -G "$disk/etc/netplan/*.yaml" >/dev/null; then echo yes; return; fi
  said=$(bounded 20 systemctl is-enabled "${1%.service}.socket") || true
  if [ "$said" = enabled ]; then echo "by ${1%.service}.socket"; elif [ "$2" != - ]; then echo "by $2"; else echo no; fi
}

# The services that must come back: those that run now and will not start, failed ones, files that sshd refuses.
boot_look_services() {
  local id active wanted starts said services
  services=$(boot_services)
  while read -r id _ active _ _ _ wanted; do
    [ -n "$id" ] || continue
    starts=$(boot_starts "$id" "$wanted")
    case $active:$starts in
      *:could*) boot_blind "${starts#could not look: }" ;;
      active:no | *ing:no) boot_without "$id" "$id runs and is not enabled" "systemctl enable $id, if it should" ;;
      active:masked | *ing:masked) boot_without "$id" "$id runs and is masked" "systemctl unmask $id, if it should start" ;;
      active:by*) boot_note "$id is started ${starts/,/, }" 'it is not enabled itself' ;;
      failed:no | failed:masked) boot_note "$id has failed and does not start" 'nothing changes' ;;
      failed:*) boot_without "$id" "$id has failed now" "systemctl status $id: what would be different after a boot?" ;;
      activating:yes) boot_without "$id" "$id is not up" "systemctl status $id: what would be different after a boot?" ;;
      inactive:yes) boot_note "$id does not run now and will start" 'somebody may have stopped it on purpose' ;;
    esac
    if [[ $id =~ ^sshd?\.service$ && $active = active ]] && said=$(PATH=$PATH:/usr/sbin command -v sshd) && ! said=$(bounded 10 "$said" -t); then
      boot_without "$id" "sshd refuses its files: $(head -n 1 <<<"$said")" 'mend them; sshd -t says when they are right'
    fi
  done <<<"$services"
}

# Unit files that changed since the start: what was tried last is not what starts next.
boot_look_changes() {
  local id loaded active since reload file said newer other services
  services=$(boot_services)
  while read -r id loaded active since reload file _; do
    [[ $loaded = loaded && $active = active && $file = /* ]] || continue
    newer=$(find "$disk$file" "$disk/etc/systemd/system/$id.d" -maxdepth 1 -type f -newerct "@$((since + 1))" 2>/dev/null || true)
    [[ -n $newer || $reload = yes ]] || continue
    if said=$(bounded 30 systemd-analyze verify --man=no "$file"); then
      boot_note "the unit $id changed after its start ${newer//$'\n'/ }" 'it starts anew with the boot'
    else
      boot_without "$id" "the unit $id changed after its start and is refused: $(grep -m 1 -F "${id%.service}" <<<"$said" || head -n 1 <<<"$said")" "systemd-analyze verify $id"
    fi
  done <<<"$services"
  said=$(bounded 20 systemctl show --property=Id,NeedDaemonReload '*.service' '*.mount') || { boot_blind "systemctl does not answer: $(boot_why "$said")"; return; }
  other=$(awk 'BEGIN { RS = "" } /NeedDaemonReload=yes/ { sub(/.*Id=/, ""); print $1 }' <<<"$said" | head -n 20)
  [ -z "$other" ] || boot_note "changed on disk, not loaded: ${other//$'\n'/ }" 'they count from the next boot on'
}

# What containerd would read at its next start, against what it runs with (`containerd config dump` tells only
# the files; github.com/NVIDIA/gpu-operator/issues/730 is what is seen after such a boot).
boot_look_containerd() {
  local since file said dump runs lost came
  local -a at=()
  since=$(boot_services | awk '$1 == "containerd.service" && $3 == "active" { print $4 }')
  [ -n "$since" ] || return 0
  said=$(bounded 20 systemctl show --property=ExecStart containerd.service)
  file=$(grep -oE -- '(--config|-c)[ =][^ ;]+' <<<"$said" | head -n 1 | sed 's/^[^ =]*[ =]//' || true)
  if [ -n "$file" ]; then at=(--config "$file"); else file=/etc/containerd/config.toml; fi
  dump=$(bounded 20 containerd "${at[@]}" config dump) ||
    { boot_ill "containerd refuses its files: $(boot_why "$dump")" "mend $file or what it imports"; return; }
  dump=$(boot_runtimes <<<"$dump")
  said=$(find "$disk${file%/*}" -newerct "@$((since + 1))" 2>/dev/null || true)
  if ! command -v crictl >/dev/null; then
    [ -z "$said" ] || boot_blind "without crictl, what containerd runs with; its files changed after its start: ${said//$'\n'/ }"
    return
  fi
  runs=$(bounded 20 crictl --timeout 15s info) || { boot_blind "crictl does not answer: $(boot_why "$runs")"; return; }
  runs=$(boot_runtimes <<<"$runs")
  [ -n "$runs" ] || { boot_blind 'crictl tells no runtime that containerd runs with'; return; }
  lost=$(comm -13 <(echo "$dump") <(echo "$runs")) came=$(comm -23 <(echo "$dump") <(echo "$runs"))
  [ -z "$lost" ] || boot_ill "the running containerd has, and its files have not: ${lost//$'\n'/, }" "mend $file: its imports, its drop-ins"
  [ -z "$came" ] || boot_note "only in containerd's files: ${came//$'\n'/, }" 'the running containerd has not read them'
}

# Print the runtimes, sorted, of a dump (TOML of any version) or of crictl's info (JSON): "runtime NAME", "default
# NAME", "runc SystemdCgroup true".
boot_runtimes() {
  sed -E "s/^[[:space:]]*//; s/['\"]//g; s/[[:space:]]*,?\$//" | awk '
    /^\[.*\.containerd\.runtimes\.[^.]+(\.options)?\]$/ { sub(/.*\.runtimes\./, ""); sub(/(\.options)?\]$/, ""); name = $0; print "runtime " name; next }
    /^\[/ { name = ""; next }
    /^default_?[rR]untime_?[nN]ame *[=:] *[^ ]/ { sub(/^[^=:]*[=:] */, ""); print "default " $0; next }
    /^runtimes: *\{/ { depth = 1; next }
    depth && /\{\}$/ { if (depth == 1) { sub(/:.*/, ""); print "runtime " $0 }; next }
    depth && /\{$/ { if (depth++ == 1) { name = $0; sub(/:.*/, "", name); print "runtime " name }; next }
    depth && /\}$/ { if (--depth < 2) name = ""; next }
    name != "" && /^(SystemdCgroup|BinaryName) *[=:] *[^ ]/ { sub(/ *[=:] */, " "); print name " " $0 }' | sort -u
}

# Print the kernel and the initramfs that GRUB boots next: what next_entry, else saved_entry or the default names,
# by number, id or title, through submenus (info grub, "default" and "Environment block").
boot_grub() {
  local file env entry
  for file in "$disk"/boot/grub{,2}/grub.cfg; do [ ! -s "$file" ] || break; done
  env=${file%/*}/grubenv
  [ -f "$env" ] || env=/dev/null
  if grep -q '^[[:space:]]*blscfg' "$file"; then
    entry=$(sed -n 's/^next_entry=\(..*\)/\1/p; s/^saved_entry=\(..*\)/\1/p' "$env" | head -n 1)
    awk '$1 == "linux" || $1 == "initrd" { print $1, $2 }' "$disk/boot/loader/entries/$entry.conf"
    return
  fi
  awk -v quote="'" '
    FNR == NR && /^(next|saved)_entry=/ { env[substr($0, 1, index($0, "=") - 1)] = substr($0, index($0, "=") + 1); next }
    $1 == "set" && $2 ~ /^default="/ && !/next_entry/ { wanted = $0; gsub(/^[^"]*"|"[^"]*$/, "", wanted) }
    $1 == "menuentry" || $1 == "submenu" {
      depth++; split($0, part, quote); title[depth] = part[2]; number[depth] = count[depth]++; count[depth + 1] = 0
      id[depth] = match($0, /menuentry_id_option /) ? substr($0, RSTART + RLENGTH + 1) : ""; sub(quote ".*", "", id[depth])
      path = env["next_entry"] ? env["next_entry"] : wanted ~ /saved_entry/ ? env["saved_entry"] : wanted
      if (path == "") path = "0"
      same = split(path, part, ">") == depth
      for (i = 1; i <= depth; i++) if (part[i] != title[i] && part[i] != number[i] && part[i] != id[i]) same = 0
    }
    $1 ~ /^(linux|initrd)(16|efi)?$/ && same { print ($1 ~ /^linux/ ? "linux" : "initrd"), $NF ~ /^\/.*initr/ ? $NF : $2 }
    $1 == "}" && depth { depth--; same = 0 }' "$env" "$file"
}

# The kernel of the next boot, its initramfs, and the driver for it.
boot_look_kernel() {
  local entry kernel version image said
  if boot_contained; then boot_note 'this is a container' 'kernel, boot loader and driver are those of its host'; return; fi
  if compgen -G "$disk/boot/grub*/grub.cfg" >/dev/null; then
    entry=$(boot_grub)
    kernel=$(sed -n 's/^linux .*\///p' <<<"$entry") image=$(sed -n 's/^initrd .*\///p' <<<"$entry")
    [ -n "$kernel" ] || { boot_blind 'which kernel GRUB boots next'; return; }
    version=${kernel#vmlinu?-}
    [ -s "$disk/boot/$kernel" ] || boot_lost "there is no kernel /boot/$kernel, which GRUB boots next" 'install it again, or update-grub'
    if [ -n "$image" ]; then boot_image "$image"; fi
  else
    version=$(find "$disk/lib/modules/" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V | tail -n 1)
    boot_note "no GRUB here; the newest kernel $version is taken for the next" 'look at the boot loader by hand'
  fi
  [ "$version" = "$(uname -r)" ] || boot_note "the next kernel is $version, not $(uname -r)" 'drivers are looked at for that one'
  [ -d "$disk/lib/modules/$version" ] || { boot_lost "there are no modules for the next kernel $version" "install its package again"; return; }
  if [ ! -d "$disk/sys/module/nvidia" ]; then return; fi
  if awk '$5 ~ "^/run/nvidia/driver" { found = 1 } END { exit !found }' "$disk/proc/self/mountinfo"; then
    boot_note 'the driver comes from a container' 'it is built or loaded anew at the boot'
  elif [ -z "$(find "$disk/lib/modules/$version/" -name 'nvidia.ko*')" ]; then
    if command -v dkms >/dev/null; then said=$(bounded 30 dkms status -k "$version") || true; fi
    boot_ill "no nvidia module for the next kernel $version${said:+ (dkms: ${said//$'\n'/, })}" "dkms autoinstall -k $version"
  fi
}

# The initramfs: there, and whole as far as can be told.
boot_image() {
  local file=$disk/boot/$1 magic
  [ -s "$file" ] || { boot_lost "the initramfs /boot/$1 is missing or empty" 'update-initramfs -u -k all, or dracut --force'; return; }
  magic=$(od -An -tx1 -N4 "$file" | tr -d ' ')
  case $magic in
    30373037 | 1f8b* | 28b52ffd | fd377a58 | 04224d18 | 02214c18 | 5d0000* | 425a68*) ;;
    *) boot_lost "the initramfs /boot/$1 begins like nothing known ($magic)" 'update-initramfs -u -k all, or dracut --force' ;;
  esac
  if command -v lsinitramfs >/dev/null && ! bounded 60 lsinitramfs "$file" >/dev/null; then
    boot_lost "the initramfs /boot/$1 cannot be read to its end" 'update-initramfs -u -k all'
  fi
}

# Full file systems. `stat -f` asks only the one it is given.
boot_look_space() {
  local where least said blocks size files all
  for where in / /boot; do
    least=100
    if [ "$where" = /boot ]; then least=20; fi
    [ -d "$disk$where" ] || continue
    if boot_may_hang "$where"; then boot_blind "$where is on a mount that may hang"; continue; fi
    said=$(bounded 10 stat --file-system --format='%a %S %d %c' "$disk$where") || { boot_blind "how full $where is: $said"; continue; }
    read -r blocks size files all <<<"$said"
    if ((blocks * size < least << 20)); then boot_ill "$where has less than $least MiB left" 'what a boot writes is cut off: make room'; fi
    if ((all > 0 && files < 500)); then boot_ill "$where has less than 500 inodes left" 'what a boot writes is cut off: make room'; fi
  done
}

# Packages whose configuration is pending. Triggers alone break nothing.
boot_look_packages() {
  local said
  if [ ! -f "$disk/var/lib/dpkg/status" ]; then boot_note 'no dpkg here' 'pending packages were not looked at'; return; fi
  said=$(awk '/^Package:/ { name = $2 } /^Status:/ && $NF !~ /^(installed|config-files|not-installed|triggers-.*)$/ { print name " " $NF }' "$disk/var/lib/dpkg/status")
  [ -z "$said" ] || boot_ill "packages are not configured: ${said//$'\n'/, }" 'dpkg --configure -a'
  ! compgen -G "$disk/var/lib/dpkg/updates/[0-9]*" >/dev/null || boot_ill 'dpkg was interrupted' 'dpkg --configure -a'
}
