# runbooks/lib/slurm.sh: after lib/strict.sh, on the controller. What Slurm says of one node, and the reason by which
# a run knows its own drain. All here only read, except slurm_set. A node of Slurm is named by NODE_SLURM_NAME.
# shellcheck shell=bash
unset SLURM_TIME_FORMAT "${!SQUEUE_@}"

# Look at the node: sets state (its flags, " IDLE DRAIN "), reason, reason_by, and in seconds of the clock
# reason_at, drained_at (a reason of ours that was moved on tells it) and slurmd_at.
# A state is a set of flags: who reads the first word takes a drained node for a healthy one
# (github.com/SckyzO/slurm_exporter/issues/142). Before 21.08 some were signs behind a word (sinfo(1)).
slurm_look() {
  local said line word sign
  local with_author='^(.*) \[([^][:space:]@]+)@([0-9T:-]+)\]'
  # scontrol takes ALL, lists and ranges: one wrong word would drain a cluster.
  if [[ ! $NODE_SLURM_NAME =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ || ${NODE_SLURM_NAME^^} = ALL ]]; then
    echo "could not look: slurm_name of this node is $NODE_SLURM_NAME, and that names no single node"
    exit 2
  fi
  said=$(bounded 60 scontrol show node -o "$NODE_SLURM_NAME") || { echo "could not look: $said"; exit 2; }
  line=$(grep '^NodeName=' <<<"$said" || true)
  if [[ $line != "NodeName=$NODE_SLURM_NAME "* || $line = *$'\n'* || ! $line =~ \ State=([^[:space:]]+) ]]; then
    echo "could not look: scontrol says of $NODE_SLURM_NAME: $said"
    exit 2
  fi
  state=' '
  for word in ${BASH_REMATCH[1]//+/ }; do
    sign=${word##*[A-Z_]} word=${word%%[^A-Z_]*}
    case $word in DRAINED | DRAINING) word='IDLE DRAIN' ;; esac
    case $sign in *'*'*) word+=' NOT_RESPONDING' ;; *'~'*) word+=' POWERED_DOWN' ;; *'#'*) word+=' POWERING_UP' ;;
      *'!'* | *'%'*) word+=' POWERING_DOWN' ;; *'@'*) word+=' REBOOT_REQUESTED' ;; *'^'*) word+=' REBOOT_ISSUED' ;; esac
    state+="$word "
  done
  reason='' reason_by='' reason_at=0
  if [[ $line =~ \ Reason=(.*)$ ]]; then
    reason=${BASH_REMATCH[1]}
    if [[ $reason =~ $with_author ]]; then
      reason=${BASH_REMATCH[1]} reason_by=${BASH_REMATCH[2]} reason_at=$(slurm_seconds "${BASH_REMATCH[3]}")
    fi
    [ "$reason" != none ] || reason=''
  fi
  drained_at=$reason_at
  if slurm_ours && [[ $reason =~ \ \(drained\ at\ ([0-9]+)\)$ ]]; then drained_at=${BASH_REMATCH[1]}; fi
  slurmd_at=0
  [[ ! $line =~ \ SlurmdStartTime=([0-9T:-]+) ]] || slurmd_at=$(slurm_seconds "${BASH_REMATCH[1]}")
}

slurm_seconds() { date -d "$1" +%s; }

# Succeed when the node has one of these flags.
slurm_has() {
  local flag
  for flag; do [[ $state != *" $flag "* ]] || return 0; done
  return 1
}

# Succeed when the reason is of this run; with a word, when it stands at that point of it.
slurm_ours() { [[ $reason = "unstick:$UNSTICK_RUN_ID ${1:-}"* ]]; }

# Succeed when the slurmd that Slurm hears began after the drain.
slurmd_is_new() { ((slurmd_at >= drained_at)); }

# Say what Slurm says of the node.
slurm_tell() {
  echo "Slurm: $NODE_SLURM_NAME is$state${reason:+because \"$reason\"}${reason_by:+ ($reason_by, $(date -d "@$reason_at" +%FT%TZ))}"
}

# Print the jobs that are on the node, one a line; those that are ending too.
slurm_jobs() {
  local said
  said=$(bounded 60 squeue -h -a -w "$NODE_SLURM_NAME" -o 'job %A user %u state %T nodes %D since %S name %j') ||
    { echo "could not look: $said" >&2; return 2; }
  grep '^job ' <<<"$said" || [ -z "$said" ] || { echo "could not look: squeue says: $said" >&2; return 2; }
}

# Of jobs, print those that have not ended for Slurm, and those of which only processes are left. A state is told by its
# place: a job may have any words in its name.
slurm_running() { awk '$1 == "job" && $6 != "COMPLETING"' <<<"$1"; }
slurm_ending() { awk '$1 == "job" && $6 == "COMPLETING"' <<<"$1"; }

# Change the node. What is written as reason stands there whole, whatever signs it has.
slurm_set() {
  echo "scontrol update NodeName=$NODE_SLURM_NAME $*"
  bounded 60 scontrol update "NodeName=$NODE_SLURM_NAME" "$@"
}

# Move the reason of our own drain to another point; a foreign reason is left alone.
slurm_note() {
  slurm_look
  slurm_ours || { slurm_tell; echo 'the reason is not of this run and stays as it is'; return 77; }
  slurm_set Reason="unstick:$UNSTICK_RUN_ID $1 (drained at $drained_at)"
}

# Succeed when the reason is not ours, or has come to this point; 77 when not.
slurm_noted() {
  slurm_look
  slurm_tell
  ! slurm_ours || slurm_ours "$1" || return 77
}
