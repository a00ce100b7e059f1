# runbooks/lib/strict.sh: placed before every script of a runbook that names it, and before the
# other files. It makes an accident "could not look", and runs what may hang without waiting for it.
# shellcheck shell=bash
shopt -s inherit_errexit                    # else bash drops -e inside $( )
set -E
trap '[ $? -ne 1 ] || exit 2' ERR           # an accident is "could not look", never "not well"
export LC_ALL=C TZ=UTC
# A script that only reads runs as a user of its own, with root's right to read everything (CAP_DAC_READ_SEARCH).
if [ "$EUID" -ne 0 ] && ! ((0x$(awk '/^CapEff/ { print $2 }' /proc/self/status) >> 2 & 1)); then
  echo 'could not look: not root'
  exit 2
fi

# Run a command and print what it says; leave it behind when it cannot even be killed.
bounded() {
  local seconds=$1 fd line end="exit$RANDOM$RANDOM "   # else whoever names a job "exit 0" would end the answer
  shift
  # sed ends the last line where the command did not, so that what follows is a line of its own.
  exec {fd}< <({ timeout --kill-after=5 "$seconds" "$@" 2>&1 </dev/null | sed -u "\$a\\" && echo "${end}0"; } || echo "$end$?")
  while IFS= read -r -t "$((seconds + 10))" -u "$fd" line; do
    case $line in
      "${end}0") exec {fd}<&-; return 0 ;;
      "$end"*) exec {fd}<&-; echo "$1: exit ${line#"$end"}"; return "${line#"$end"}" ;;
    esac
    printf '%s\n' "$line"
  done
  exec {fd}<&-
  echo "$1: no answer, left behind"
  return 124
}

# Print what a command prints in each of three looks spread over SECONDS; nothing, and at once,
# when the first look shows nothing.
steady() {
  local pause kept now
  pause=$((($1 + 1) / 2))
  shift
  kept=$("$@")
  for _ in 1 2; do
    [ -n "$kept" ] || return 0
    sleep "$pause"
    now=$("$@")
    kept=$(comm -12 <(sort <<<"$kept") <(sort <<<"$now"))
  done
  printf '%s\n' "$kept"
}
