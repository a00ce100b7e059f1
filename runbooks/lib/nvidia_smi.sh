# runbooks/lib/nvidia_smi.sh: after lib/strict.sh. nvidia-smi may hang for ever, lose rows and print words where a number
# stands: it is bounded, there is one at a time, and a word nobody knows is unknown, never 0. All here only read.
# shellcheck shell=bash
driver=/run/nvidia/driver                   # the root of GPU Operator's driver container
kernel=/proc/driver/nvidia
processes=/proc
lock=/run

# Print "PID START" of each nvidia-smi in state D at this moment.
smi_in_d() {
  local status
  { grep -lsE '^Name:[[:space:]]+nvidia-smi$' "$processes"/[0-9]*/status || [ $? -le 2 ]; } | while read -r status; do
    if grep -qsE '^State:[[:space:]]+D' "$status"; then
      sed 's/^.*) //' "${status%/status}/stat" 2>/dev/null | awk -v at="${status%/status}" '{ print at, $20 }' || true
    fi
  done | sort
}

# Run nvidia-smi. The lock is inherited, so one that cannot even be killed keeps it: no second one is
# started beside it, by us or by whoever asks the same node.
nvidia_smi() {
  local held hung code=0
  local -a smi=(nvidia-smi)
  [ ! -e "$driver/usr/bin/nvidia-smi" ] || smi=(chroot "$driver" nvidia-smi)
  hung=$(smi_in_d)
  [ -z "$hung" ] || { sleep 2; hung=$(comm -12 - <(smi_in_d) <<<"$hung"); }
  [ -z "$hung" ] || { echo "an nvidia-smi hangs in state D: $hung"; return 3; }
  exec {held}<"$lock"
  if flock --wait 45 "$held"; then
    bounded 20 "${smi[@]}" "$@" || code=$?
  else
    echo 'an earlier nvidia-smi has not ended'
    code=3
  fi
  exec {held}<&-
  return "$code"
}

# Print the rows "UUID, VALUE, ..." for these fields of every GPU, or of one.
ask() {
  local said rows expected
  said=$(nvidia_smi ${2:+-i "$2"} --query-gpu="uuid,$1" --format=csv,noheader,nounits) ||
    { echo "could not look: $said" >&2; return 2; }
  rows=$(awk -F', *' -v asked="uuid,$1" '
    BEGIN { fields = split(asked, _, ",") }
    $1 ~ /^MIG-/ { next }
    $1 !~ /^GPU-[0-9A-Za-z-]+$/ || NF != fields { print "could not look: nvidia-smi says: " $0 >"/dev/stderr"; strange = 1; next }
    { print }
    END { if (strange) exit 2 }' <<<"$said")
  expected=$({ find "$kernel/gpus" -mindepth 1 -maxdepth 1 2>/dev/null || true; } | wc -l)
  if [ -z "${2:-}" ] && [ "$expected" -gt 0 ] && [ "$(wc -l <<<"$rows")" -ne "$expected" ]; then
    echo "could not look: the driver has $expected GPUs, and $(wc -l <<<"$rows") answered" >&2
    return 2
  fi
  sort <<<"$rows"
}

# Succeed when no GPU without a process holds more than IDLE MiB; 77 when one does; 2 when
# nvidia-smi fails, hangs, or does not know.
vram_back() {
  local apps used
  if [ ! -d "$kernel" ] && ! command -v nvidia-smi >/dev/null; then
    echo 'no GPU driver on this node; VRAM not looked at'
    return 0
  fi
  apps=$(nvidia_smi --query-compute-apps=gpu_uuid --format=csv,noheader) || { echo "could not look: $apps"; return 2; }
  used=$(nvidia_smi --query-gpu=uuid,memory.used --format=csv,noheader,nounits) || { echo "could not look: $used"; return 2; }
  printf '%s\n' "$apps" "$used" | awk -F', *' -v idle="$1" '
    NF < 2 { busy[$1]; next }
    { gpus++ }
    $2 ~ /N\/A|Not Supported/ { print $1 ": this GPU does not tell its memory"; next }
    $2 !~ /^[0-9]+$/ { print "could not look: " $1 ": " $2; unknown = 1; next }
    $2 > idle && !($1 in busy) { print $1 ": " $2 " MiB used and no process"; bad = 1 }
    END {
      if (!gpus) print "could not look: no GPU answered"
      exit bad ? 77 : unknown || !gpus ? 2 : 0
    }'
}
