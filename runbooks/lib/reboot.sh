# runbooks/lib/reboot.sh: after lib/strict.sh, on the node. How a node is rebooted from within, whether that began, and
# whether its GPUs are back. All here only read, except send_reboot.
# shellcheck shell=bash
boot_file=/proc/sys/kernel/random/boot_id
devices=/sys/bus/pci/devices

# Print the boot that the node is on.
boot_now() { cat "$boot_file"; }

# Print the threads in state D: folder, command, where they wait. A reboot is what ends them.
in_state_d() {
  local status folder
  { find /proc/[0-9]*/task -mindepth 2 -maxdepth 2 -name status -exec grep -lsE '^State:[[:space:]]+D' {} + 2>/dev/null || true; } |
    sed -n 1,50p | while read -r status; do
    folder=${status%/status}
    echo "$folder $(cat "$folder/comm") $(cat "$folder/wchan")" 2>/dev/null || true
  done
}

# Succeed when nobody has asked logind to block a shutdown; 1 when somebody has, who is then named.
nobody_inhibits() {
  local said
  said=$(bounded 20 busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager BlockInhibited) ||
    { echo "logind does not tell who blocks a shutdown: $said"; return 0; }
  [[ $said = *[\":]shutdown[\":]* ]] || return 0
  echo 'refused: inhibitor: somebody blocks a shutdown of this node:'
  bounded 20 systemd-inhibit --list --no-legend --no-pager || true
  return 1
}

# Reboot soon, from a unit of its own, so that our answer is out before: send_reboot NAME SHELL. The unit stays when
# its shell has ended, so that it can be asked when it was.
send_reboot() {
  bounded 30 systemctl stop "unstick-reboot-$UNSTICK_RUN_ID-$1".{timer,service} >/dev/null || true
  bounded 30 systemd-run --quiet --unit="unstick-reboot-$UNSTICK_RUN_ID-$1" --on-active=3s \
    --timer-property=AccuracySec=100ms --property=RemainAfterExit=yes bash -c "$2"
  echo "in 3 s: $2"
}

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
