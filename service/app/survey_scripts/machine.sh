# service/app/survey_scripts/machine.sh: after frames.sh, on the node. Who has logged in, and what computes on its GPUs.
# No path of a mount is touched, and of a process only what tells of it without its memory: a hung one hangs nobody here.
# shellcheck shell=bash
driver=/run/nvidia/driver                   # the root of GPU Operator's driver container
kernel=/proc/driver/nvidia
processes=/proc
booted=/run/systemd/system                  # there where systemd runs (sd_booted(3))
lock=/run

# Print the pids of nvidia-smi in state D.
hung_smi() {
  local status
  { grep -lsE '^Name:[[:space:]]+nvidia-smi$' "$processes"/[0-9]*/status || [ $? -le 2 ]; } | while read -r status; do
    if grep -qsE '^State:[[:space:]]+D' "$status"; then basename "${status%/status}"; fi
  done
}

# Print what computes on GPUs. One nvidia-smi at a time, with the lock under which runbooks call it.
gpus() {
  local held hung
  local -a smi=(nvidia-smi)
  [ ! -e "$driver/usr/bin/nvidia-smi" ] || smi=(chroot "$driver" nvidia-smi)
  if [ ! -e "$kernel" ] && [ "${smi[0]}" = nvidia-smi ] && ! command -v nvidia-smi >/dev/null; then
    said='' code=0
    part gpus none ''
    return 0
  fi
  hung=$(hung_smi | paste -sd' ')
  [ -z "$hung" ] || { said='' code=3; part gpus 3 "an nvidia-smi hangs in state D: $hung"; return 0; }
  exec {held}<"$lock"
  if flock --wait 3 "$held"; then
    tell gpus 6 "${smi[@]}" --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits
  else
    said='' code=3
    part gpus 3 'an earlier nvidia-smi has not ended'
  fi
  exec {held}<&-
}

# Print a file of a process as a part; one that is gone is empty: of_process PID FILE.
of_process() {
  local text=''
  { IFS= read -r -d '' -n 4000 text <"$processes/$1/$2"; } 2>/dev/null || true
  part "$2-$1" 0 "$text"
}

if [ ! -e "$booted" ]; then
  part users none ''
else
  tell users 4 loginctl list-users --no-legend --no-pager
  tell sessions 4 loginctl list-sessions --no-legend --no-pager
fi
gpus
if [ "$code" = 0 ]; then
  # Only those of which there is a process are looked at more closely, and not for ever.
  { awk -F', *' '$2 ~ /^[0-9]+$/ { print $2 }' <<<"$said" | sort -un | head -n 100; } | while read -r pid; do
    of_process "$pid" comm
    of_process "$pid" cgroup
    of_process "$pid" status
  done
fi
finish
