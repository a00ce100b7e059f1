# runbooks/lib/linger.sh: after lib/strict.sh. Whom logind's RemoveIPC would hit, and who lingers.
# All here only read. Users are named, never left out: without one, loginctl means whoever asks.
# shellcheck shell=bash
linger_folder=/var/lib/systemd/linger
processes=/proc
objects_in=(/dev/shm /dev/mqueue)

# Succeed for the uid of an ordinary user. logind spares the system's own (up to 999, systemd's
# SYSTEM_UID_MAX); dynamic users (61184 to 65519) and nobody (65534) do not log in.
is_user() { (($1 >= 1000 && ($1 < 61184 || $1 > 65534))); }

# Print "yes" or "no": whether the running logind removes IPC. Its files may say something else.
remove_ipc() {
  local said
  said=$(bounded 20 busctl get-property org.freedesktop.login1 /org/freedesktop/login1 \
    org.freedesktop.login1.Manager RemoveIPC) || { echo "could not look: logind does not say: $said" >&2; return 2; }
  case $said in
    'b true') echo yes ;;
    'b false') echo no ;;
    *) echo "could not look: logind says of RemoveIPC: $said" >&2; return 2 ;;
  esac
}

# Succeed when logind's file of a user is there; a backslash of a domain's user stands twice in its name.
has_file() { [ -e "$linger_folder/${1//\\/\\\\}" ]; }

# Print "yes" or "no": whether a user lingers by the file and by the running logind. A file that was
# made by hand is not seen by a logind that already ran.
lingering() {
  local said
  if ! has_file "$1"; then
    echo no
  elif said=$(bounded 20 loginctl show-user "$1" --property=Linger --value); then
    case $said in
      yes | no) echo "$said" ;;
      *) echo "could not look: loginctl says of $1: $said" >&2; return 2 ;;
    esac
  elif [[ $said == *'not logged in or lingering'* ]]; then
    echo no
  else
    echo "could not look: $said" >&2
    return 2
  fi
}

# Print the passwd line of a user or uid; nothing when there is none.
account() {
  local said code=0
  said=$(bounded 20 getent passwd "$1") || code=$?
  case $code in
    0) printf '%s\n' "${said%%$'\n'*}" ;;
    2) ;; # no such user
    *) echo "could not look: $said" >&2; return 2 ;;
  esac
}

# Print "UID KIND ID [NAME]" of each System V object, shared memory file and message queue. The
# kernel tells those of this IPC namespace only, and so does logind remove.
objects() {
  local kind folder
  for kind in shm sem msg; do
    awk -v kind="$kind" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } { print $at["uid"], kind, $2 }' \
      "$processes/sysvipc/$kind"
  done
  for folder in "${objects_in[@]}"; do
    [ ! -d "$folder" ] || find "$folder" -ignore_readdir_race -mindepth 1 -printf '%U file %i %p\0' | tr '\n\0' '?\n'
  done
}

# Print "UID PID COMM CGROUP" of each process of an ordinary user that belongs to no login: of a
# service, a container, a scheduler. One in an IPC namespace of its own has its own objects.
outside() {
  local own pid uid group
  own=$(readlink "$processes/self/ns/ipc")
  { grep -Hs '^Uid:' "$processes"/[0-9]*/status || [ $? -le 2 ]; } |
    sed -E 's,^.*/([0-9]+)/status:Uid:[[:space:]]*([0-9]+)[[:space:]].*$,\1 \2,' | while read -r pid uid; do
    is_user "$uid" || continue
    [ "$(readlink "$processes/$pid/ns/ipc" || true)" = "$own" ] || continue
    group=$(sed -nE 's/^[0-9]+:(name=systemd)?:(.*)$/\2/p' "$processes/$pid/cgroup" 2>/dev/null | tail -n 1 || true)
    [[ ! $group =~ /user-[0-9]+\.slice ]] || continue
    echo "$uid $pid $(head -n 1 "$processes/$pid/comm" 2>/dev/null | tr ' ' _ || echo gone) ${group:-gone}"
  done
}

# Print "user NAME uid UID" for each of these users, named with blanks or commas between.
named() {
  local name line
  local -a names
  [ -n "$1" ] || return 0
  IFS=', ' read -r -a names <<<"$1"
  for name in "${names[@]}"; do
    line=$(account "$name")
    [ -n "$line" ] || { echo "could not look: there is no user $name on this node" >&2; return 2; }
    echo "user $name uid $(cut -d: -f3 <<<"$line")"
  done | sort -u
}

# Print "user NAME uid UID" for each ordinary user who owns objects or runs work outside a login.
found() {
  local uid name said
  said=$(objects; outside)
  awk 'NF { print $1 }' <<<"$said" | sort -nu | while read -r uid; do
    is_user "$uid" || continue
    name=$(account "$uid")
    name=${name%%:*}
    case $name in
      '') echo "uid $uid has no name here: nobody logs in as it" >&2 ;;
      *[[:space:]]*) echo "left alone, its name has a blank: uid $uid, $name" >&2 ;;
      *) echo "user $name uid $uid" ;;
    esac
  done
}

# Keep the users read who do not linger.
not_lingering() {
  local name uid does
  while read -r _ name _ uid; do
    [ -n "$name" ] || continue
    does=$(lingering "$name")
    [ "$does" = yes ] || echo "user $name uid $uid"
  done
}

# Write the users where the gate looks for them, with what each owns, and say what runs as them.
propose() {
  local name uid own work
  {
    printf '%s\n' "$1"
    while read -r _ name _ uid; do
      objects | awk -v uid="$uid" -v name="$name" '$1 == uid { $1 = ""; print "ipc", name, "uid", uid $0 }' | sort | sed -n 1,40p
    done <<<"$1"
  } >"$UNSTICK_TARGETS"
  while read -r _ name _ uid; do
    own=$(objects | awk -v uid="$uid" '$1 == uid' | wc -l)
    work=$(outside | awk -v uid="$uid" '$1 == uid' | wc -l)
    echo "$name (uid $uid) owns $own objects and runs $work processes outside a login:"
    objects | awk -v uid="$uid" '$1 == uid { $1 = " "; print }' | sed -n 1,20p
    outside | awk -v uid="$uid" '$1 == uid { $1 = "  pid"; print }' | sed -n 1,20p
    if [ "$own" -eq 0 ]; then echo "  nothing is left to protect: a job that had semaphores must be restarted"; fi
  done <<<"$1"
  own_login
}

# Say it when the look itself came in by a login whose end could fire RemoveIPC.
own_login() {
  local uid name does
  uid=$(cat "$processes/self/loginuid" 2>/dev/null || echo 4294967295)
  [ "$uid" != 4294967295 ] && is_user "$uid" || return 0
  name=$(account "$uid")
  name=${name%%:*}
  does=$(lingering "${name:-$uid}")
  [ "$does" = yes ] || echo "this look came in by the login of ${name:-uid $uid}, who does not linger: its end may be the fault; log in as root"
}

# Name the objects of the targets that are gone: nothing brings them back.
name_lost() {
  local now name uid what gone=
  now=$(objects)
  while read -r _ name _ uid what; do
    grep -qxF "$uid $what" <<<"$now" || { echo "gone since the look: $what of $name"; gone=yes; }
  done < <(grep '^ipc ' "$UNSTICK_TARGETS" || true)
  [ -z "$gone" ] || echo 'linger does not bring it back: a job that still needs it (ENOENT, EINVAL, EIDRM) must be restarted'
}

# Let the targets' users linger; each answer of loginctl is kept. 77 when nobody was left to.
let_linger() {
  local users name uid does line done=77
  users=$(grep '^user ' "$UNSTICK_TARGETS" || true)
  while read -r _ name _ uid; do
    [ -n "$name" ] || continue
    line=$(account "$name")
    does=$(lingering "$name")
    if [ "$(cut -d: -f3 <<<"$line")" != "$uid" ]; then
      echo "left alone: $name is not uid $uid any more"
    elif [ "$does" = yes ]; then
      echo "$name lingers already"
    elif bounded 30 loginctl --no-ask-password enable-linger "$name"; then
      echo "asked logind to let $name linger"
      [ "$done" = 1 ] || done=0
    else
      done=1
    fi
  done <<<"$users"
  return "$done"
}

# Succeed when each of the users given lingers; 77 when one does not.
all_linger() {
  local name uid does file left=0
  while read -r _ name _ uid; do
    [ -n "$name" ] || continue
    does=$(lingering "$name") file=no
    ! has_file "$name" || file=a
    echo "$name: $file linger file, lingers: $does"
    bounded 20 systemctl show "user@$uid.service" --property=ActiveState || true
    [ "$does" = yes ] || left=77
  done <<<"$1"
  return "$left"
}
