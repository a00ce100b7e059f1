# runbooks/lib/reboot.sh: after lib/slurm_node.sh. Whether a reboot that was sent began, and whether the GPUs are back.
# shellcheck shell=bash

# Print the GPUs on the PCI bus by their address: NVIDIA's, of the class of display controllers.
gpu_addresses() {
  local device
  for device in "$devices"/*; do
    [ "$(cat "$device/vendor" 2>/dev/null || true)" = 0x10de ] || continue
    case $(cat "$device/class") in 0x03*) echo "gpu ${device##*/}" ;; esac
  done
}

# Print for how long the unit of a reboot has run, in seconds; nothing when none was sent in this boot.
sent_for() {
  local at up
  at=$(systemctl show "unstick-reboot-$UNSTICK_RUN_ID-$1.service" --property=ExecMainStartTimestampMonotonic --value || true)
  [ "${at:-0}" != 0 ] || return 0
  read -r up _ </proc/uptime
  echo "$((${up%.*} - at / 1000000))"
}

# Succeed when the machine has booted and has the GPUs that it had, and when it did not begin to go down: rebooted NAME
# PATIENCE. 77 while it may still go down, or a GPU is missing.
rebooted() {
  local now age
  grep -q '^boot ' "$UNSTICK_TARGETS" || { echo 'this step had nothing to reboot'; return 0; }
  now=$(cat "$boot_file")
  if ! grep -qxF "boot $now" "$UNSTICK_TARGETS"; then
    echo "it has booted: boot $now"
    now=$(grep '^gpu ' "$UNSTICK_TARGETS" | grep -vxFf <(gpu_addresses) || true)
    [ -z "$now" ] || { echo "not back: $now"; return 77; }
    return 0
  fi
  case $(bounded 20 systemctl is-system-running || true) in stopping*) echo 'it goes down'; return 77 ;; esac
  age=$(sent_for "$1")
  [ -n "$age" ] || { echo 'no reboot has begun'; return 77; }
  echo "not started: still boot $now, $age s after the reboot was sent"
  bounded 20 journalctl --boot --no-pager --lines=5 --output=cat --unit="unstick-reboot-$UNSTICK_RUN_ID-$1.service" || true
  [ "$age" -ge "$2" ] || return 77
}
