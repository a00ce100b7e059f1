# runbooks/lib/gpus_well.sh: after lib/nvidia_smi.sh and lib/reboot.sh, on the node. Whether its GPUs are well after a boot.
# All here only read.
# shellcheck shell=bash

# Succeed when every GPU on the bus answers, holds no memory that nobody uses, and needs no further recovery; 77 when
# one does not.
gpus_well() {
  local count rows said
  count=$(gpu_addresses | wc -l)
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
  said=$(bounded 20 dmesg) && [ -n "$said" ] || said=$(bounded 30 journalctl --dmesg --boot --no-pager --lines=20000)
  [ -n "$said" ] || { echo 'could not look: the kernel tells nothing'; return 2; }
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
  grep -qE '\|[[:space:]]*Pass' <<<"$said" || { echo 'could not look: dcgmi shows no test that passed'; return 2; }
}
