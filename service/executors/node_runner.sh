# shellcheck shell=bash
# The envelope around every script: starts it once, follows it, tells how it stands, ends it.
#
# It is sent on standard input, the same bytes for every transport, followed by settings and by
# the line `main complete`: an input that was cut defines functions and runs nothing. The words of
# its frames are those of service/domain/script.py. It needs bash 4.2, coreutils and util-linux.
#
# An attempt is a folder. `door` in it is created once and by one hand: by the script's own process
# just before it becomes the script, or by whoever closes the door (then `void` follows). So a
# script runs at most once, whoever dies in between. Records are lines in files that are written
# beforehand, so that a full file system loses output and never an exit code.

verb='' attempt='' run='' step='' service='' expected_boot='' first_boot='' last_boot='' resend='' acting='' view=''
confine='' keeps_user='' reads=''
path='' sent_at=0 not_after=0 timeout=0 wait=0
limit='' targets_at=0 # where an answer comes in one piece, at its end, and is cut
script='' targets=''
export -n stdout_at=0 stderr_at=0 # read through their names

segment=65536 head=2 tail=5 short=64 targets_limit=65536 extra=250 day=86400
alphabet=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/
stat_line='^([A-Za-z]) [0-9]+ ([0-9]+) [0-9]+( -?[0-9]+){15} ([0-9]+)'
root='' dir='' boot='' place='' body='' bell='' wake='' pid='' began='' left='' stands=''

# Keep a setting; its value comes with every byte that a shell might read as \xHH.
setting() { printf -v "$1" '%b' "$2"; }

# ---- records

# Overwrite a record in place.
record() { printf '%-95s\n' "${*:2}" 1<>"$dir/$1"; } 2>/dev/null

# Read a record into the variables named.
recall() { { IFS=' ' read -r "${@:2}" <"$dir/$1"; } 2>/dev/null; }

# Set $now, to the microsecond where bash can.
look_at_clock() {
  now=${EPOCHREALTIME:-}
  [ -n "$now" ] || printf -v now '%(%s)T' -1
}

# Set $whole to a pipe without a fork where bash has here-documents in pipes (5.1).
open_pipe() {
  exec {whole}<<<''
  if [ -p "/dev/fd/$whole" ]; then
    read -r -u "$whole"
  else
    exec {whole}<&- {whole}< <(:)
  fi
}

# ---- processes

# Set $phase, $group and $since of a process or thread; fail when it is gone.
look() {
  local line=''
  { IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null
  [[ ${line##*) } =~ $stat_line ]] || return 1
  phase=${BASH_REMATCH[1]} group=${BASH_REMATCH[2]} since=${BASH_REMATCH[4]}
}

# Succeed when a process is not over; the first thread of a killed one is a zombie while another is in D.
lives() {
  local threads
  look "$1" || return 1
  case $phase in
    Z | X) threads=("/proc/$1/task"/*) && [ "${#threads[@]}" -gt 1 ] ;;
  esac
}

# Succeed when the process that began then is not over.
same_lives() { [ -n "$1" ] && lives "$1" && [ "$since" = "$2" ]; }

# Set $left to a living process of a group, or fail.
find_left() {
  local entry number
  for entry in /proc/[0-9]*; do
    number=${entry#/proc/}
    if look "$number" && [ "$group" = "$1" ] && lives "$number"; then
      left=$number
      return 0
    fi
  done
  return 1
}

# Set $wchan to where a process waits, its threads in state D first.
find_wchan() {
  local task name
  wchan=''
  for task in "/proc/$1/task"/*; do
    name=''
    { IFS= read -r -d '' name <"$task/wchan"; } 2>/dev/null
    name=${name//[^A-Za-z0-9_.]/}
    if look "$1/task/${task##*/}" && [ "$phase" = D ]; then
      wchan=${name:0:64}
      return 0
    fi
    wchan=${wchan:-${name:0:64}}
  done
}

# ---- frames

word() { [ -z "$2" ] || body+=",\"$1\":\"$2\""; }
number() { [ -z "$2" ] || body+=",\"$1\":$2"; }
frame() { printf 'unstick %s {"frame":"%s"%s}\n' "$attempt" "$1" "$2"; }

# Send the state frame with what $body holds, and end. Output has gone before; where an answer is cut it follows.
answer() {
  look_at_clock
  body="$place,\"clock\":$now$body"
  word boot_id "$boot"
  word state "$1"
  word reason "${2:-}"
  frame state "$body"
  [ -z "$limit" ] || send_rest
  [ ! -p "$dir/bell.$$" ] || rm -f "$dir/bell.$$"
  exit 0
}

# Put into $body what is known of the script.
describe() {
  local stream total still cut why
  number pid "$pid"
  word wchan "${wchan:-}"
  number exit_code "${exit_code:-}"
  number signal "${signal:-}"
  number started "${started:-}"
  number finished "${finished:-}"
  recall ended cause && word ended_by "$cause"
  recall unconfined why && word unconfined "${why//[!a-z0-9: ]/}"
  for stream in stdout stderr; do
    recall "$stream.total" total still cut || continue
    number "${stream}_bytes" "$total"
    [ "$cut" = whole ] || word "${stream}_cut" yes
    [ "$still" = shut ] || word "${stream}_open" yes
  done
  if [ ! -s "$dir/targets" ]; then
    :
  elif [ -n "$limit" ]; then
    number targets_bytes "$(head -c "$((targets_limit + 1))" "$dir/targets" | wc -c)"
  else
    word targets "$(head -c "$((targets_limit + 1))" "$dir/targets" | base64 -w0)"
  fi
}

# Set $data to the base64 of a few bytes of a file, or fail: a process costs more than reading them here.
read_short() {
  local text='' i a b c
  (($3 <= short && $2 <= 4096)) || return 1
  { IFS= read -r -d '' -n "$(($2 + $3))" text <"$1"; } 2>/dev/null
  ((${#text} == $2 + $3)) || return 1
  text=${text:$2} data=''
  for ((i = 0; i < $3; i += 3)); do
    printf -v a %d "'${text:i:1}"
    printf -v b %d "'${text:i+1:1}"
    printf -v c %d "'${text:i+2:1}"
    a=$(((a & 255) << 16 | (b & 255) << 8 | (c & 255)))
    data+=${alphabet:a >> 18:1}${alphabet:a >> 12 & 63:1}${alphabet:a >> 6 & 63:1}${alphabet:a & 63:1}
  done
  case $(($3 % 3)) in
    1) data=${data%??}== ;;
    2) data=${data%?}= ;;
  esac
}

# Send what is new of a stream, from $stdout_at or $stderr_at on, segment by segment, or what fits into $room of it.
send() {
  local at="${1}_at" from=0 total=0 still='' cut file data count
  recall "$1.total" total still cut
  while from=${!at} && ((from < total)); do
    file=$dir/$1.$((from / segment))
    if [ -n "$limit" ]; then
      count=$((segment - from % segment))
      squeeze out "$1" "$file" "$((from % segment))" "$((count < total - from ? count : total - from))" || return 0
      [ -z "$data" ] || { printf -v "$at" '%d' "$((from + count))" && continue; }
    elif read_short "$file" "$((from % segment))" "$((total - from))"; then
      :
    elif ((from % segment)); then
      data=$(tail -c "+$((from % segment + 1))" "$file" 2>/dev/null | base64 -w0)
    else
      data=$(exec base64 -w0 "$file" 2>/dev/null)
    fi
    if [ -z "$data" ]; then
      skip "$1" "$at" "$total" || return 0
      continue
    fi
    count=${data%%=*}
    count=$((${#count} * 3 / 4))
    frame out ",\"stream\":\"$1\",\"offset\":$from,\"data\":\"$data\""
    printf -v "$at" '%d' "$((from + count))"
  done
}

# Send some bytes of a file, from $4 on, compressed: at most $5, and only so many as fit into $room. Sets $count to
# how many; $data is empty when the file has been emptied. Fails where no byte fits.
squeeze() {
  local zipped at="${2}_at"
  ((room > extra)) || return 1
  for ((count = $5; count > 0; count = count * room * 7 / 8 / ${#data})); do
    zipped=data
    if ! read_short "$3" "$4" "$count"; then
      zipped=gzip
      data=$(tail -c "+$(($4 + 1))" "$3" 2>/dev/null | head -c "$count" | gzip -c | base64 -w0)
    fi
    [ -n "$data" ] || return 1
    ((${#data} > room)) || break
  done
  ((count > 0)) || return 1
  [ -s "$3" ] || { data='' && return 0; } # what an emptied file gives is not what stood there
  frame "$1" ",\"stream\":\"$2\",\"offset\":${!at},\"$zipped\":\"$data\""
  room=$((room - ${#data} - extra))
}

# Send what fits behind the state frame: the targets first, then of each stream, neither at the other's cost.
send_rest() {
  local room=$((limit - ${#body} - extra)) half size data count
  size=0 # while the script runs its targets are still being written
  [ "$stands" = running ] || size=$(head -c "$((targets_limit + 1))" "$dir/targets" 2>/dev/null | wc -c)
  while ((targets_at < size)) && squeeze targets targets "$dir/targets" "$targets_at" "$((size - targets_at))"; do
    targets_at=$((targets_at + count))
  done
  half=$((room / 2))
  room=$half
  send stderr
  room=$((room + half))
  send stdout
  send stderr
}

# Go on behind a gap: to the next segment that is still there, or fail.
skip() {
  local next last
  last=$(($3 / segment))
  next=$((${!2} / segment + 1))
  ((next > last - tail + 1 || next < head)) || next=$((last - tail + 1))
  ((next * segment < $3)) || return 1
  printf -v "$2" '%d' "$((next * segment))"
}

# ---- where it runs

# Read the boot, the namespaces and PID 1 into $boot and $place.
see_place() {
  local fd key value inode='' init='' mounts=false
  { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
  { IFS= read -r init </proc/1/comm; } 2>/dev/null
  if { exec {fd}</proc/self/ns/pid; } 2>/dev/null; then
    while read -r key value; do
      [ "$key" != ino: ] || inode=$value
    done <"/proc/self/fdinfo/$fd"
    exec {fd}<&-
  fi
  if [ -z "$inode" ]; then # before Linux 5.14 fdinfo does not tell the inode
    inode=$(readlink /proc/self/ns/pid)
    inode=${inode//[!0-9]/}
  fi
  [ ! /proc/self/ns/mnt -ef /proc/1/ns/mnt ] || mounts=true
  init=${init//[!A-Za-z0-9_.:()-]/_}
  place=",\"uid\":$EUID,\"pid_namespace\":${inode:-0},\"mounts_are_init\":$mounts,\"init\":\"$init\""
  case $view:${inode:-0}:$mounts:$init in
    machine:4026531836:true:* | private:4026531836:*) ;;
    boot:*:true:systemd) [ /proc/self/ns/pid -ef /proc/1/ns/pid ] || answer not_started wrong_view ;;
    *) answer not_started wrong_view ;;
  esac
}

# Make a folder that only we may enter, or fail with $body saying why not.
make_folder() {
  local said
  [ -d "$1" ] || said=$(exec mkdir -m 700 "$1" 2>&1) || [ -d "$1" ] || refuse_folder "$said"
  if [ -L "$1" ] || [ ! -O "$1" ] || { ((EUID)) && [ "$(stat -c %a "$1")" != 700 ]; }; then
    answer not_started folder
  fi
}

# Answer for a folder that could not be made.
refuse_folder() {
  word said "$(printf '%s' "${1:0:300}" | base64 -w0)"
  case $1 in
    *'No space left'* | *'quota exceeded'*) answer not_started no_space ;;
  esac
  answer not_started folder
}

# Set $root and $dir. Without root, /var/tmp outlives a boot, so each boot has a folder.
find_root() {
  if ((EUID == 0)); then
    root=/run/unstick
  else
    root=/var/tmp/unstick-$EUID
    make_folder "$root"
    [ -d "$root/$boot" ] || rm -rf "$root"/*-*-*-*-* # of an earlier boot nobody can ask for more
    root=$root/$boot
  fi
  make_folder "$root"
  dir=$root/$attempt
}

# ---- how an attempt stands

# Close the door to a script that has not begun; fail when it was open or closed already.
close_door() {
  set -o noclobber
  { : >"$dir/door"; } 2>/dev/null
  local lost=$?
  set +o noclobber
  ((lost)) || : >"$dir/void"
  return "$lost"
}

# Succeed when the exit code is there: the record was blank, and is written in one piece.
has_ended() {
  local mark=''
  recall exit _ _ _ mark && [ "$mark" = end ]
}

# Succeed unless the script is being ended and some of its group still runs. Once proven it stays
# so: a group's number is given again.
is_dead() {
  [ ! -e "$dir/ended" ] || [ -e "$dir/dead" ] || ! find_left "$pid" || return 1
  [ ! -e "$dir/ended" ] || : >"$dir/dead"
}

# Set $stands, and what is known beside it.
stand() {
  local kept
  exit_code='' signal='' wchan='' pid='' began='' started='' finished=''
  if [ -e "$dir/void" ]; then
    stands=void
  elif [ ! -e "$dir/door" ]; then
    stands=preparing
  elif has_ended; then
    recall exit exit_code signal finished _
    recall pid pid began started _
    stands=finished
    exit_code=${exit_code#-} signal=${signal#-}
    is_dead || stands=running exit_code='' signal='' finished=''
  elif recall pid pid began started kept _ && [ -n "$pid" ]; then
    stands=unknown
    ! same_lives "$pid" "$began" || [ "$kept" != "$boot" ] || stands=running
    # On a busy node its keeper may need seconds to write down how it ended.
    [ "$stands" = running ] || ! recall keeper left kept _ || ! same_lives "$left" "$kept" || stands=running
  else
    stands=void
  fi
  if recall unkillable left kept && same_lives "$left" "$kept"; then
    stands=unkillable pid=$left
    find_wchan "$left"
  fi
}

# Wait a little for an attempt that is being prepared; then its door is ours to close.
settle_door() {
  local turn
  for ((turn = 0; turn < 20; turn++)); do
    stand
    [ "$stands" = preparing ] || return 0
    read -r -n 1 -t 0.1 -u "$bell"
  done
  close_door || true
  stand
}

# Give this process a bell that the attempt's own processes ring.
hang_bell() {
  if [ -d "$dir" ] && { [ -p "$dir/bell.$$" ] || mkfifo -m 600 "$dir/bell.$$"; } 2>/dev/null; then
    exec {bell}<>"$dir/bell.$$"
  else # nothing rings: it looks now and then
    open_pipe
    exec {bell}<>"/dev/fd/$whole" {whole}<&-
  fi
}

# Ring every bell; one that has not been answered is left alone, so that nobody is ever waited for.
ring() {
  local other
  [ -z "$wake" ] || read -r -t 0 -u "$wake" || printf . >&"$wake"
  for other in "$dir"/bell.*; do
    [ ! -p "$other" ] || { read -r -t 0 || printf . >&0; } <>"$other"
  done
} 2>/dev/null

# Succeed when both streams are shut and all of them was sent; else set $reached to how far one has come.
drained() {
  local stream total still at
  for stream in stdout stderr; do
    recall "$stream.total" total still _
    at=${stream}_at reached="$stream $total"
    [ "$still" = shut ] && { [ -n "$limit" ] || [ "${!at}" -ge "${total:-0}" ]; } || return 1
  done
}

# Succeed when a stream need not be waited for after so many looks: a child may keep it open for ever. Where
# none is left in the group, whoever keeps the stream has not had its turn yet; on a busy node that takes seconds.
abandoned() { (($1 >= 4)) && { (($1 >= 50)) || find_left "$pid"; }; }

# Follow the attempt until it is over or the time is up, then answer.
follow() {
  local until=$((SECONDS + wait)) pause late=0 doubts=0 looks=0 reached='' before=''
  while :; do
    stand
    if [ -z "$limit" ]; then
      send stdout
      send stderr
    fi
    case $stands in
      running | preparing) ((SECONDS < until)) || break ;;
      unknown) ((doubts++ < 10)) || break ;; # its exit code may be on its way
      finished)
        if drained || abandoned "$((late++))"; then break; fi
        # While more still comes it is not abandoned, but a child outside of the group may write for ever.
        [ "$reached" = "$before" ] || ((looks++ >= 300)) || before=$reached late=$((late < 4 ? late : 4))
        ;;
      *) break ;;
    esac
    case $stands in
      running | preparing) pause=$((until - SECONDS < 5 ? until - SECONDS : 5)) ;;
      *) pause=0.1 ;;
    esac
    # A frame now and then, so that a wait without a client ends at the broken pipe.
    read -r -n 1 -t "$pause" -u "$bell" || [ "$pause" = 0.1 ] || [ -n "$limit" ] || frame alive ''
  done
  give_state
}

# Answer with how the attempt stands.
give_state() {
  case $stands in
    void) answer not_started void ;;
    preparing) answer running ;;
    *) describe && answer "$stands" ;;
  esac
}

# ---- ending it

# Wait up to 5 s until the script and its group are gone.
gone() {
  local until=$((SECONDS + 6))
  while ((SECONDS < until)); do
    has_ended && is_dead && return 0
    read -r -n 1 -t 0.1 -u "$bell"
  done
  return 1
}

# TERM, KILL, and a record of who is left.
end_group() {
  local cause=$1 leader
  recall pid pid began _ || return 0
  leader=$pid
  printf '%s\n' "$cause" >"$dir/ended"
  kill -TERM -- "-$leader"
  kill -CONT -- "-$leader"
  if ! gone; then
    kill -KILL -- "-$leader"
    if ! gone && find_left "$leader" && look "$left"; then
      printf '%s %s\n' "$left" "$since" >"$dir/unkillable"
    fi
  fi
  ring
} 2>/dev/null

# ---- the script's own processes

# Keep a stream: its head and its last segments. What is between is counted and dropped. The
# function named is called between two looks; it sets $patience (seconds).
copy() {
  local total=0 size=0 number=0 spent=() count=0 much=''
  while "$2" && if [ -n "$much" ] && read -r -t 0; then take_block "$1"; else take_bytes "$1"; fi; do
    ((count)) || continue
    total=$((total + count)) size=$((size + count))
    if ((size >= segment)); then
      size=0 number=$((number + 1))
      if ((number - tail >= head)); then
        cut=part
        spent+=("$dir/$1.$((number - tail))")
        : >"$dir/$1.$((number - tail))" # to remove each by itself would cost a process each time
        ((${#spent[@]} < 64)) || { rm -f "${spent[@]}" && spent=(); }
      fi
    fi
    record "$1.total" "$total" open "$cut"
    ((count <= short)) && [ -n "$much" ] && read -r -t 0 && continue # the rest of it is on its way
    ring
  done
  record "$1.total" "$total" shut "$cut"
  ring
}

# Wait for a byte and append it with the few that are there already, without a process. Sets
# $count, 0 when the time was up; fails at the end of the stream.
take_bytes() {
  local text='' byte='' zero='' failed limit=$((segment - size < short ? segment - size : short))
  count=0 much=''
  IFS= read -r -d '' -n 1 -t "$patience" byte || {
    failed=$?
    # The time may be up in the moment in which the byte was taken.
    [ -n "$byte" ] || { ((failed > 128)); return; }
  }
  while true; do
    [ -n "$byte" ] || zero='\0'
    text+=$byte
    [ -z "$zero" ] && ((${#text} < limit)) && read -r -t 0 && IFS= read -r -d '' -n 1 byte && continue
    break
  done
  count=$((${#text} + ${#zero} / 2))
  [ -z "$zero" ] && ((${#text} < limit)) || much=yes
  printf '%s%b' "$text" "$zero" >>"$dir/$1.$number" || count=0 cut=part much=yes
}

# Append the block that is there; set $count. A full file system takes some of it, or nothing.
take_block() {
  local said
  if ! copy_block "$1" "$dir/$1.$number"; then
    cut=part
    record "$1.total" "$total" open part
    # Not even an empty file can be made; or the folder is gone, and a pipe without a reader would end the script.
    copy_block "$1" /dev/null || exec cat >/dev/null
  fi
  [ "${BASH_REMATCH[1]}${BASH_REMATCH[2]}" != 00 ] || return 1
  [[ $said =~ ([0-9]+)\ bytes?[\ ,] ]] && count=${BASH_REMATCH[1]}
  [[ $said != *rror* ]] || cut=part
}

# Append a block of a stream to a file; set $said. There is no $( ) where a trap may come: one that comes while
# bash 5.2 reads the text of a $( ) leaves it in the middle of a line, and the shell ends.
copy_block() {
  said=''
  printf '%-300s' '' 1<>"$dir/$1.said" && dd bs="$((segment - size))" count=1 >>"$2" 2<>"$dir/$1.said"
  IFS= read -r -d '' -n 300 said <"$dir/$1.said"
  [[ $said =~ ([0-9]+)\+([0-9]+)\ records\ in ]]
}

# Become the script, when the door is still open.
become_script() {
  local fd inside=()
  look "$BASHPID"
  look_at_clock
  record pid "$BASHPID" "$since" "$now" "$boot" "${acting:-reading}"
  set -o noclobber
  { : >"$dir/door"; } 2>/dev/null || exit 0
  set +o noclobber
  exec 0</dev/null 1>&"$out_write" 2>&"$err_write"
  for fd in "/proc/$BASHPID/fd"/*; do
    fd=${fd##*/}
    ((fd < 3)) || exec {fd}>&-
  done
  umask 022
  cd / || exit 126
  [ -n "${HOME:-}" ] || HOME=/
  export HOME PATH="$path" LANG=C.UTF-8 UNSTICK_RUN_ID="$run" UNSTICK_STEP="$step" UNSTICK_ATTEMPT="$attempt" \
    UNSTICK_TARGETS="$dir/targets" UNSTICK_BOOT_ID="${first_boot:-$boot}" UNSTICK_LAST_BOOT_ID="${last_boot:-$boot}"
  unset SHLVL OLDPWD
  hear_signals
  [ -z "$confine" ] || confine_script
  exec "${again[@]}" "${inside[@]}" "$BASH" "$dir/script"
}

# Set $again to what gives a script back the signals that whoever started us ignores, as nohup and
# units of systemd do: it would never end at a broken pipe. A shell cannot do that (coreutils 8.31 can).
hear_signals() {
  local status=''
  again=()
  { IFS= read -r -d '' status </proc/self/status; } 2>/dev/null
  # The first 31 are the ones with a name; the C library keeps the next two to itself.
  [[ ! $status =~ SigIgn:[[:space:]]*([0-9a-f]+) ]] || ((!(16#${BASH_REMATCH[1]} & 0x7fffffff))) ||
    ! env --default-signal true || again=(env --default-signal)
} 2>/dev/null

# Start the script, keep its standard output and write down how it ended, whatever becomes of the
# connection. Only this process waits for the script, and nobody for this one.
keep() {
  local whole out_read out_write err_read err_write cut=whole how='' child='' patience
  exec </dev/null >/dev/null 2>&1
  look "$BASHPID"
  record keeper "$BASHPID" "$since"
  open_pipe
  exec {bell}<>"/dev/fd/$whole" {whole}<&-
  open_pipe
  exec {out_read}<"/dev/fd/$whole" {out_write}>"/dev/fd/$whole" {whole}<&-
  open_pipe
  exec {err_read}<"/dev/fd/$whole" {err_write}>"/dev/fd/$whole" {whole}<&-
  trap '{ jobs -l %1 1<>"$dir/how" && read -r how <"$dir/how"; } 2>/dev/null' CHLD
  set -m
  become_script &
  child=$!
  set +m
  exec {out_write}>&- {err_write}>&-
  watch <&"$err_read" {out_read}<&- {err_read}<&- &
  copy stdout look_for_end <&"$out_read" {out_read}<&- {err_read}<&-
  [ -z "$child" ] || note_end
  : >"$dir/script"
  sweep
}

# See whether the script has ended while a child of it keeps the stream open.
look_for_end() {
  patience=3600
  [ -n "$child" ] || return 0
  patience=0.2
  kill -0 "$child" || note_end
}

# Wait for the script and write down how it ended.
note_end() {
  local code ended
  while wait "$child"; code=$?; kill -0 "$child"; do :; done
  ((code != 128 + 17)) || { wait "$child"; code=$?; } # that was the end of another process
  trap - CHLD
  ended=$child child=''
  if [ -e "$dir/void" ] || [ ! -e "$dir/door" ]; then
    close_door
  else
    look_at_clock
    # A shell tells both `exit 137` and SIGKILL as 137; its list of jobs tells them apart.
    if ((code > 128)) && [ -n "$how" ] && [[ ! $how =~ ^\[[0-9]+\][+-]?\ +[0-9]+\ (Exit|Done) ]]; then
      record exit - "$((code - 128))" "$now" end
    else
      record exit "$code" - "$now" end
    fi
    [ -z "$confine" ] || end_rest "$ended"
  fi
  ring
  printf . >&"$bell"
}

# Keep the standard error, and end the script at its deadline.
watch() {
  local deadline up
  trap - CHLD
  read -r up _ </proc/uptime
  deadline=$((${up%.*} + timeout + 1))
  copy stderr look_at_deadline
  until has_ended || [ -e "$dir/void" ] || [ -e "$dir/ended" ]; do
    look_at_deadline
    read -r -n 1 -t "$patience" -u "$bell"
  done
}

# End the script when its time is up. No clock that somebody sets is asked.
look_at_deadline() {
  local up
  read -r up _ </proc/uptime
  patience=$((deadline - ${up%.*}))
  ((patience <= 0)) || return 0
  patience=3600
  has_ended || [ -e "$dir/ended" ] || end_group deadline
}

# Once an hour, remove what ended a day ago. Of an acting script the record stays until the next
# boot: a settle must never take one that ran for one that did not.
sweep() {
  local last=0 now mode
  printf -v now '%(%s)T' -1
  { read -r last <"$root/swept"; } 2>/dev/null
  ((now - ${last:-0} >= 3600)) || return 0
  printf '%s\n' "$now" >"$root/swept"
  while IFS= read -r dir; do
    stand
    case $stands in
      running | unkillable | preparing) ;;
      *)
        recall pid _ _ _ _ mode
        case $stands:$mode in
          void:* | *:reading) rm -rf "$dir" ;;
          *) rm -f "$dir"/std* "$dir"/bell.* "$dir"/script "$dir"/how ;;
        esac
        ;;
    esac
  done < <(find "$root" -mindepth 1 -maxdepth 1 -type d -mmin "+$((day / 60))")
}

# ---- verbs

# Hold the node for an acting script, or answer who holds it. The holder's own record says whether it still does.
hold() {
  local lock other_boot='' other_service='' other='' mine=$dir
  exec {lock}>>"$root/lock"
  flock -w 10 "$lock" || { close_door; answer not_started held; }
  { read -r other_boot other_service other <"$root/acting"; } 2>/dev/null
  if [ -n "$other" ] && [ "$other" != "$attempt" ] && [ "$other_boot" = "$boot" ] && [ -d "$root/$other" ]; then
    dir=$root/$other
    settle_door
    [ "$stands" != unknown ] || ! find_left "$pid" || stands=running pid=$left
    dir=$mine
    case $stands in
      running | unkillable | preparing)
        close_door
        number pid "$pid"
        word wchan "$wchan"
        word holder_service "$other_service"
        word holder_attempt "$other"
        answer not_started held
        ;;
    esac
  fi
  printf '%s %s %s\n' "$boot" "$service" "$attempt" >"$root/acting" || fill_up
  exec {lock}>&-
} 2>/dev/null

# Answer for a full file system, with the door closed.
fill_up() {
  close_door
  : >"$dir/script"
  answer not_started no_space
}

# Refuse an order that came to another boot; when an earlier one may have come in time, nobody knows.
judge_boot() {
  if [ -n "$expected_boot" ] && [ "$expected_boot" != "$boot" ]; then
    [ -z "$resend" ] || answer rebooted
    answer not_started other_boot
  fi
}

# Refuse an order that came too late, or to a clock that cannot tell.
judge_time() {
  local now
  printf -v now '%(%s)T' -1
  number sent_at "$sent_at"
  number not_after "$not_after"
  ((now >= sent_at - 60)) || answer not_started clock
  ((now <= not_after)) || answer not_started too_late
  # A look shows the clock before anything acts; an act may come late, and has its own bound.
  [ -n "$acting" ] || ((now <= sent_at + 300)) || answer not_started clock
  body=''
}

# Make the folder and start the script; or attach to the one that was started.
start() {
  local said name
  judge_boot
  [ -d "$dir" ] || judge_time
  if ! said=$(exec mkdir -m 700 "$dir" 2>&1); then
    [ -d "$dir" ] || refuse_folder "$said"
    hang_bell
    settle_door
    follow
  fi
  open_pipe
  exec {bell}<>"/dev/fd/$whole" {whole}<&-
  wake=$bell
  [ -z "$acting" ] || hold
  {
    for name in pid exit how unconfined; do record "$name" || fill_up; done
    for name in stdout stderr; do
      record "$name.total" 0 open whole || fill_up
      printf '%-300s' '' >"$dir/$name.said" || fill_up
    done
    { printf '%s' "$script" >"$dir/script" && printf '%s' "$targets" >"$dir/targets"; } || fill_up
  } 2>/dev/null
  set -m
  keep &
  set +m
  follow
}

# Find the attempt for settle and stop; with no folder the door is closed for good.
find_attempt() {
  if [ -n "$expected_boot" ] && [ "$expected_boot" != "$boot" ]; then
    answer rebooted
  fi
  local said=''
  if [ ! -d "$dir" ] && said=$(exec mkdir -m 700 "$dir" 2>&1); then
    close_door
  fi
  [ -d "$dir" ] || refuse_folder "$said"
  [ -e "$dir/void" ] || hang_bell
  settle_door
}

settle() {
  find_attempt
  follow
}

stop() {
  find_attempt
  [ "$stands" != running ] || end_group stop
  wait=0
  follow
}

main() {
  [ "${1:-}" = complete ] || exit 0
  umask 077
  printf '\n'
  see_place
  find_root
  case $verb in
    start | settle | stop) "$verb" ;;
  esac
}
