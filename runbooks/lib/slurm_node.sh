# runbooks/lib/slurm_node.sh: after lib/strict.sh, on the node. How a node is rebooted, and whether it is well
# after it. All here only read, except send_reboot.
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

# Count the GPUs on the PCI bus: NVIDIA's, of the class of display controllers.
gpus_on_bus() {
  local device count=0
  for device in "$devices"/*; do
    [ "$(cat "$device/vendor" 2>/dev/null || true)" = 0x10de ] || continue
    case $(cat "$device/class") in 0x03*) count=$((count + 1)) ;; esac
  done
  echo "$count"
}

# Succeed when every GPU on the bus answers, holds no memory that nobody uses, and needs no further recovery; 77 when
# one does not. It needs lib/nvidia.sh.
gpus_well() {
  local count rows said
  count=$(gpus_on_bus)
  if [ "$count" -eq 0 ] && ! command -v nvidia-smi >/dev/null; then echo 'no GPU on this node'; return 0; fi
  rows=$(ask memory.used)
  printf '%s\n' "$rows"
  if [ "$(grep -c ^GPU- <<<"$rows")" -ne "$count" ]; then echo "$count GPUs are on the bus, and these answered"; return 77; fi
  awk -F', *' -v idle="$1" '$2 !~ /^[0-9]+$/ { unknown = 1; print "could not look: " $0 }
    $2 ~ /^[0-9]+$/ && $2 > idle { bad = 1; print $1 ": " $2 " MiB used on a node that was just booted" }
    END { exit bad ? 77 : unknown ? 2 : 0 }' <<<"$rows"
  said=$(nvidia_smi -q)
  if said=$(grep -E 'GPU Recovery Action[[:space:]]*:' <<<"$said" | grep -vE ':[[:space:]]*None[[:space:]]*$'); then
    echo "$said"
    return 77
  fi
}

# Succeed when the driver has reported no error since the boot; 77 when it has.
no_xid() {
  local said
  said=$(bounded 20 dmesg) || said=$(bounded 30 journalctl --dmesg --boot --no-pager --lines=20000)
  ! grep -E 'NVRM: (Xid|GPU .* has fallen off the bus)' <<<"$said" || return 77
}

# Succeed when the short diagnosis of DCGM passes, or there is no DCGM; 77 when it fails.
dcgm_passes() {
  local said code=0
  command -v dcgmi >/dev/null || { echo 'no dcgmi on this node: its diagnosis was not made'; return 0; }
  said=$(bounded 300 dcgmi diag -r 1) || code=$?
  printf '%s\n' "$said" | tail -n 60
  if grep -qE '\|[[:space:]]*Fail' <<<"$said"; then return 77; fi
  [ "$code" -eq 0 ] || return 2
}
