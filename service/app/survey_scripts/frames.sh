# service/app/survey_scripts/frames.sh: stands before the other scripts of this folder. They only read. What they say is
# parts: a name, an end and words, each with a NUL behind it, which no word of a machine can hold; the last part is `end`.
# shellcheck shell=bash
export LC_ALL=C TZ=UTC
most=200000 said='' code=0

# Print a part: part NAME END WORDS.
part() { printf '%s\0%s\0%s\0' "$1" "$2" "$3"; }

# Run a command for at most SECONDS, print it as a part and keep it in $said and $code: tell NAME SECONDS COMMAND. What it
# complains of is told only when it fails: a warning is no answer. One that cannot even be killed is left behind.
tell() {
  local name=$1 seconds=$2 fd complaint="${UNSTICK_TARGETS%/*}/complaint-$1"
  shift 2
  exec {fd}< <(
    set +e
    timeout --kill-after=2 "$seconds" "$@" </dev/null 2>"$complaint" | head -c "$most" | tr -d '\0'
    printf '\0%s\0' "${PIPESTATUS[0]}"
  )
  if IFS= read -r -d '' -t "$((seconds + 3))" -u "$fd" said; then
    IFS= read -r -d '' -t 3 -u "$fd" code || code=124
  else
    code=124 said='no answer, left behind'
  fi
  exec {fd}<&-
  [ "$code" = 0 ] || said+=" $(head -c 2000 "$complaint" | tr -d '\0')"
  part "$name" "$code" "$said"
}

# Say that nothing is missing, and end.
finish() {
  part end 0 ''
  exit 0
}
