# runbooks/lib/nvidia.sh: after lib/nvidia_smi.sh. Which GPUs look used by nobody, and how whoever keeps them open is
# restarted. All here only read, except restart_unit, toggle and restore.
# shellcheck shell=bash
unit=nvidia-persistenced.service

# Print "UUID PID COMM" for who has a GPU open, zombies with a living thread too. What serves all GPUs
# and computes nothing is left out (comm is cut at 15 bytes).
gpu_holders() {
  local zombie
  {
    cat "$kernel"/gpus/*/information 2>/dev/null | awk '/^GPU UUID:/ { u = $3 } /^Device Minor:/ { print "minor", $3, u }' || true
    {
      printf '%s\n' "$processes"/[0-9]*
      { grep -lsE '^State:[[:space:]]+Z' "$processes"/[0-9]*/status || [ $? -le 2 ]; } |
        while read -r zombie; do printf '%s\n' "${zombie%/status}"/task/[0-9]*; done
    } | sed 's,$,/fd,' | { xargs -r sh -c 'find "$@" -maxdepth 1 -lname "/dev/nvidia[0-9]*" -printf "%h %l\n"' sh 2>/dev/null || [ $? -eq 123 ]; } |
      sort -u | while read -r folder device; do
        folder=${folder%/fd}
        echo "open ${device#/dev/nvidia} ${folder##*/} $(cat "$folder/comm" 2>/dev/null || echo gone)"
      done
  } | awk '
    $1 == "minor" { uuid[$2] = $3; next }
    $2 in uuid && $4 !~ /^(nvidia-persiste|nv-hostengine|nv-fabricmanage|dcgm-exporter|nvidia-device-p|gpu-feature-dis|nvidia-smi|gone)$/ {
      pid = $3; $1 = $3 = ""; comm = $0; sub(/^ *[0-9]+ */, "", comm); print uuid[$2], pid, comm }'
}

# Print one line a GPU: "phantom UUID ..." (at least BUSY % or more than IDLE MiB, no process, and nobody
# has it open), "used", "held", "mig", "idle", "untold" (it does not tell), or "unknown" with its words.
states() {
  local apps rows
  apps=$(nvidia_smi --query-compute-apps=gpu_uuid --format=csv,noheader) || { echo "could not look: $apps" >&2; return 2; }
  if grep -vE '^((GPU|MIG)-[0-9A-Za-z-]+|No running.*|)$' <<<"$apps" >&2; then
    echo 'could not look: nvidia-smi says this of processes' >&2
    return 2
  fi
  rows=$(ask utilization.gpu,memory.used,mig.mode.current)
  {
    awk '{ print "app", $0 }' <<<"$apps"
    gpu_holders | sed 's/^/holder /'
    awk '{ print "row", $0 }' <<<"$rows"
  } | awk -v busy="$1" -v idle="$2" '
    $1 == "app" { used[$2]; next }
    $1 == "holder" { held[$2]; next }
    {
      sub(/^row /, ""); split($0, v, /, */); id = v[1]; told = "utilisation " v[2] ", memory " v[3]
      u = v[2] ~ /^[0-9]+$/; m = v[3] ~ /^[0-9]+$/
      if (v[4] == "Enabled") state = "mig"
      else if (id in used) state = "used"
      else if ((u && v[2] + 0 >= busy) || (m && v[3] + 0 > idle)) state = id in held ? "held" : "phantom"
      else if (u && m) state = "idle"
      else if ((u || v[2] ~ /^\[?(N\/A|Not Supported)\]?$/) && (m || v[3] ~ /^\[?(N\/A|Not Supported)\]?$/)) state = "untold"
      else state = "unknown"
      print state, id, told
    }'
}

# Print the UUIDs of the GPUs that look used by nobody.
phantoms() {
  local said
  said=$(states "$1" "$2")
  awk '$1 == "phantom" { print $2 }' <<<"$said"
}

# Succeed when in three looks no GPU looks used by nobody; 77 when one does; 2 when one does not know.
calm() {
  local said turn
  for turn in 1 2 3; do
    said=$(states "$1" "$2")
    if grep '^phantom ' <<<"$said"; then return 77; fi
    [ "$turn" -eq 3 ] || sleep 2
  done
  printf '%s\n' "$said"
  if grep -q '^unknown ' <<<"$said"; then return 2; fi
}

# Print "gpu UUID persistence P mig M power W graphics MHZ memory MHZ compute C" of every GPU, or of one.
settings() {
  local rows
  rows=$(ask persistence_mode,mig.mode.current,power.limit,clocks.applications.graphics,clocks.applications.memory,compute_mode ${1:+"$1"})
  awk -F', *' '
    function word(text, pattern) { return text ~ "^(" pattern ")$" ? text : "unknown" }
    { print "gpu", $1, "persistence", word($2, "Enabled|Disabled"), "mig", word($3, "Enabled|Disabled"),
        "power", word($4, "[0-9]+([.][0-9]+)?"), "graphics", word($5, "[0-9]+"), "memory", word($6, "[0-9]+"),
        "compute", word($7, "Default|Exclusive_Process|Prohibited") }' <<<"$rows"
}

# Print what systemd knows of the unit, "Key=value" a line.
unit_facts() {
  bounded 20 systemctl show "$unit" --property=LoadState,ActiveState,UnitFileState,MainPID,InvocationID,NRestarts,Result ||
    { echo 'could not look: systemd does not answer' >&2; return 2; }
}

# Print the value of a key of these facts.
fact() { sed -n "s/^$1=//p" <<<"$2"; }

# Print the start of a process in clock ticks since boot, or nothing.
started() { { sed 's/^.*) //' "$processes/$1/stat" 2>/dev/null || true; } | awk '{ print $20 }'; }

# Print the unit as a target: an invocation is not given again.
unit_line() {
  local facts pid start
  facts=$(unit_facts)
  pid=$(fact MainPID "$facts")
  start=$(started "${pid:-0}")
  echo "unit $unit boot $(cat "$processes/sys/kernel/random/boot_id") invocation $(fact InvocationID "$facts" | grep . || echo none)" \
    "pid ${pid:-0} start ${start:-none} state $(fact ActiveState "$facts")"
}

# Print who keeps GPUs initialised here: "unit", "operator", "legacy" or "none". A unit that is off and
# not enabled is off on purpose.
variant() {
  local facts
  if [ "$1" != auto ]; then echo "$1"; return 0; fi
  facts=$(unit_facts)
  case "$(fact LoadState "$facts") $(fact ActiveState "$facts") $(fact UnitFileState "$facts")" in
    'loaded inactive enabled'*) echo unit; return 0 ;;
    'loaded inactive '* | 'not-found '* | 'masked '*) ;;
    'loaded '*) echo unit; return 0 ;;
    *) echo "could not look: systemd says of the unit: $facts" >&2; return 2 ;;
  esac
  if [ -e "$driver/usr/bin/nvidia-smi" ]; then
    echo operator
  elif command -v nvidia-smi >/dev/null; then
    echo legacy
  else
    echo none
  fi
}

# Print "yes" when the unit should run and does not.
ails() {
  local facts
  [ "$1" = unit ] || { echo no; return 0; }
  facts=$(unit_facts)
  if [ "$(fact LoadState "$facts")" != loaded ]; then
    echo "could not look: there is no unit $unit that could be restarted" >&2
    return 2
  elif [ "$(fact ActiveState "$facts")" = active ]; then
    echo no
  else
    echo yes
  fi
}

# Write what is to be restarted where the gate looks for it, with all that must be as it was afterwards.
propose() {
  local kind=$1 chosen=$2 recorded
  recorded=$(settings)
  if [ "$kind" = unit ]; then
    unit_line
    awk -v chosen=" ${chosen//$'\n'/ } " '{ $2 = $2 " phantom " (index(chosen, " " $2 " ") ? "yes" : "no"); print }' <<<"$recorded"
  else
    awk -v chosen=" ${chosen//$'\n'/ } " '
      !index(chosen, " " $2 " ") { next }
      $4 == "unknown" { print "left alone, its persistence mode is not told: " $2 >"/dev/stderr"; next }
      { $2 = $2 " phantom yes"; print }' <<<"$recorded"
  fi | tee "$UNSTICK_TARGETS"
}

# Of the GPUs read, print the targets of those that were approved to be acted on, and name the others.
still() {
  { awk 'NF { print "now", $0 }' && cat "$UNSTICK_TARGETS"; } | awk '
    $1 == "now" { now[$2]; next }
    $1 == "gpu" && $4 == "yes" { known[$2]; if ($2 in now) print }
    END { for (id in now) if (!(id in known)) print "left alone, not approved: " id >"/dev/stderr" }'
}

# Print the value of a word of a line.
word() { awk -v key="$1" '{ for (i = 1; i < NF; i++) if ($i == key) { print $(i + 1); exit } }' <<<"$2"; }

# Print "yes" when the unit's invocation is still that of the targets.
untouched() {
  local facts line
  facts=$(unit_facts)
  line=$(grep '^unit ' "$UNSTICK_TARGETS")
  if [ "$(fact InvocationID "$facts" | grep . || echo none)" = "$(word invocation "$line")" ]; then echo yes; else echo no; fi
}

# Restart the unit; its words are kept. One that was started too often is not started without a reset.
restart_unit() {
  bounded 20 systemctl reset-failed "$unit" || true
  bounded 100 systemctl restart "$unit" || {
    echo 'the unit did not restart; its last words:'
    bounded 20 journalctl -u "$unit" -b --no-pager -n 20 || true
    return 2
  }
  [ "$(untouched)" = no ] || { echo 'systemd says that it restarted, and the invocation is the old one'; return 2; }
  echo "systemd restarted $unit"
}

# Switch the persistence mode of the GPUs read to the other one and back, so that one without a client
# is closed and opened anew. The mode comes back also when that fails once: restore tries again.
toggle() {
  local line id mode code=0
  while read -r line; do
    id=$(word gpu "$line") mode=1
    [ "$(word persistence "$line")" = Enabled ] || mode=0
    echo "persistence mode of $id: $((1 - mode)), then $mode"
    if nvidia_smi -i "$id" -pm "$((1 - mode))"; then
      sleep 2
      nvidia_smi -i "$id" -pm "$mode" || code=2
    else
      code=2
    fi
  done
  return "$code"
}

# Succeed when the unit runs and no GPU of the targets looks used by nobody any more; 77 when not.
gone() {
  local facts left
  facts=$(unit_facts)
  left=$(phantoms "$1" "$2" | still 2>/dev/null)
  if [ "$(fact ActiveState "$facts")" != active ] || [ -n "$left" ]; then
    echo "it was not restarted, and is $(fact ActiveState "$facts"): $left"
    return 77
  fi
  echo 'it was not restarted, and what was wrong is gone'
}

# Succeed when the unit of the targets was restarted and its process has lasted SECONDS; 77 when not (yet).
settled() {
  local line facts pid start age
  line=$(grep '^unit ' "$UNSTICK_TARGETS")
  facts=$(unit_facts)
  pid=$(fact MainPID "$facts")
  start=$(started "${pid:-0}")
  tr '\n' ' ' <<<"$facts"
  echo
  if [ "$(untouched)" = yes ]; then
    echo 'it was not restarted'
    return 77
  elif [ "$(fact ActiveState "$facts")" != active ] || [ -z "$start" ]; then
    echo "it was restarted and is not active: $(fact ActiveState "$facts"), $(fact Result "$facts")"
    return 77
  elif [ "$pid $start" = "$(word pid "$line") $(word start "$line")" ]; then
    echo 'its process is the old one'
    return 77
  fi
  age=$(awk -v start="$start" -v ticks="$(getconf CLK_TCK)" '{ print int($1 - start / ticks) }' "$processes/uptime")
  if [ "$age" -lt "$1" ]; then
    echo "its process has lasted $age s, and $1 s count as settled"
    return 77
  fi
}

# Print "UUID WORD WANTED NOW" for each recorded setting that is another now; a GPU that does not answer
# has "unknown" for all. What was not told before is not restored.
differences() {
  local line id now key was is
  while read -r line; do
    id=$(word gpu "$line")
    now=$(settings "$id") || now="gpu $id"
    for key in persistence mig power graphics memory compute; do
      was=$(word "$key" "$line") is=$(word "$key" "$now")
      [ "$was" = unknown ] || [ "$was" = "$is" ] || echo "$id $key $was ${is:-unknown}"
    done
  done < <(grep '^gpu ' "$UNSTICK_TARGETS" || true)
}

# Set back what differs; 77 when nothing does. One that fails does not keep the others from it.
restore() {
  local wrong id key was is line code=0
  wrong=$(differences)
  [ -n "$wrong" ] || { echo 'all settings are as recorded'; return 77; }
  while read -r id key was is; do
    echo "$id: $key is $is and was $was"
    line=$(grep "^gpu $id " "$UNSTICK_TARGETS")
    case $key in
      persistence) nvidia_smi -i "$id" -pm "$([ "$was" = Enabled ] && echo 1 || echo 0)" || code=2 ;;
      mig) nvidia_smi -i "$id" -mig "$([ "$was" = Enabled ] && echo 1 || echo 0)" || code=2 ;;
      power) nvidia_smi -i "$id" -pl "$was" || code=2 ;;
      graphics | memory)
        was=$(word memory "$line"),$(word graphics "$line")
        case $was in *unknown*) ;; *) nvidia_smi -i "$id" -ac "$was" || code=2 ;; esac
        ;;
      compute) nvidia_smi -i "$id" -c "$(tr '[:lower:]' '[:upper:]' <<<"$was")" || code=2 ;;
    esac
  done <<<"$wrong"
  return "$code"
}

# Succeed when a recorded setting, or "all" of them, are back; 77 when one is not; 2 when a GPU does not tell.
restored() {
  local wrong
  wrong=$(differences | awk -v key="$1" 'key == "all" || key == $2')
  [ -n "$wrong" ] || return 0
  echo 'not as recorded (GPU, setting, was, is):'
  printf '%s\n' "$wrong"
  if grep -q ' unknown$' <<<"$wrong"; then return 2; fi
  return 77
}
