# Plays the steps below on this node while nobody else does, asks at each gate, and writes down what it does.
#
# What is run are the scripts that the service would send, started by the same envelope: once, with a deadline, and
# held apart from whatever else acts on the node. Every event stands in the journal before anything follows from it.
# When this script is started again it plays the journal first, line by line, and goes on behind it: an order without
# an answer is asked about and never given a second time.

set -u
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH

most=32768 little=1024 room=400000 # bytes of a stream in the journal, and of the journal before streams are cut short
work='' journal='' output='' lock='' seq=0 chain='' at='' now=0 lines=0 position=0 line='' value='' boot='' torn=''
interrupted='' cancelled='' leftover='' evidence='' course='' blind='' broken='' verdicts='' number=0 over_boot=''
by='' persons='' asked=0 first_boot='' last_boot='' fresh=''
state='' code='' signal='' ended='' refusal='' pid='' wchan='' intended=0 told=0
outcome='' verdict='' ends='' known='' why='' round=0 round_end='' said=0 ran='' ran_ended='' expires=0 gate_open='' seen=''

say() { printf '%s\n' "$@"; }
refuse() {
  printf '%s\n' "$@" >&2
  exit 2
}

# ---- the journal

look_at_clock() {
  # shellcheck disable=SC2046 # two words
  set -- $(date -u '+%Y-%m-%dT%H:%M:%S.%6NZ %s%6N')
  # A clock that was set back does not turn the order around.
  [ "$2" -le "$now" ] || { at=$1 now=$2; }
}

see_boot() { read -r boot </proc/sys/kernel/random/boot_id || refuse 'This kernel does not tell which boot it is.'; }

chained() { printf '%s\n%s' "$1" "$2" | sha256sum | cut -d' ' -f1; }

# Append an event with its members, and have it on the disk before anything follows.
append() {
  look_at_clock
  see_boot
  set -- "{\"seq\":$((seq + 1)),\"at\":\"$at\",\"boot\":\"$boot\",\"event\":\"$1\"$2"
  chain=$(chained "$chain" "$1")
  printf '%s,"hash":"%s"}\n' "$1" "$chain" >>"$journal" || refuse "The journal $journal cannot be written: stopped."
  sync "$journal" 2>/dev/null || sync
  seq=$((seq + 1))
  lines=$seq position=$seq
}

# Set $value to a member of $line: a word, a number or base64, none of which has a quote or a comma.
member() { value=$(printf '%s\n' "$line" | sed -n "s/.*[{,]\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"); }

take_line() {
  position=$((position + 1))
  line=$(sed -n "${position}p" "$journal")
}

# Take the next event of the journal, with what persons did behind it; fail at its end.
next_line() {
  [ "$position" -lt "$lines" ] || return 1
  take_line
  next_taken=$line
  while [ "$position" -lt "$lines" ]; do
    case $(sed -n "$((position + 1))p" "$journal") in
      *'"event":"cancelled"'*) take_line && cancelled=yes ;;
      *'"event":"resumed"'*) take_line && member by && by=$value && persons="$persons $value" ;;
      *) break ;;
    esac
  done
  line=$next_taken
  member at
  at=$value now=$(date -u -d "$value" '+%s%6N')
}

# Stop unless the journal has here what is played.
fits() {
  member event
  [ "$value" = "$1" ] || refuse "Line $position of $journal is not what this script plays there ($1)."
}

# Write an event down, or find it written; sets $fresh when it is new.
record() {
  fresh=''
  if next_line; then
    fits "$1"
  else
    fresh=yes
    append "$1" "$2"
  fi
}

# Look through the whole journal: every hash must fit. A last line without its end was never acted upon.
check_journal() {
  last=$(tail -c 1 "$journal" | od -An -tx1 | tr -d ' ')
  if [ -s "$journal" ] && [ "$last" != 0a ]; then
    torn=yes
    sed '$d' "$journal" >"$journal.whole" && mv "$journal.whole" "$journal" || exit 2
  fi
  while IFS= read -r line; do
    text=${line%,\"hash\":*}
    member hash
    chain=$(chained "$chain" "$text")
    seq=$((seq + 1))
    [ "$value" = "$chain" ] || refuse "Line $seq of $journal was changed: nothing is done." 'Keep it, and look who did.'
    case $line in
      *'"event":"ended"'*)
        member state
        refuse "This run has ended: $value." "Its journal, for unstick import: $journal" \
          'To play the runbook again, export it again.'
        ;;
    esac
  done <"$journal"
  lines=$seq
}

# ---- what is sent to the envelope

setting() { [ -z "$2" ] || printf "setting %s '%s'\n" "$1" "$2"; }
escape() { sed "s/\\\\/\\\\x5c/g; s/'/\\\\x27/g"; }

order() {
  look_at_clock
  printf '# %s\n' "$id"
  cat "$work/envelope"
  setting attempt "$id"
  setting verb "$1"
  setting run "$run"
  setting step "$step"
  setting service by-hand
  setting expected_boot "$bound"
  setting first_boot "$first_boot"
  setting last_boot "$last_boot"
  setting resend "$resend"
  setting acting "$acting"
  if [ -z "$acting" ]; then
    setting confine "$confine"
    setting reads "$reads"
  fi
  setting path "$path"
  setting view "$view"
  setting sent_at "$((now / 1000000))"
  setting not_after "$not_after"
  setting timeout "$timeout"
  setting wait "$((timeout + 20))"
  printf "setting targets '"
  escape <"$work/given"
  printf "'\nsetting script '"
  escape <"$work/$step.$kind"
  printf "'\nmain complete\n"
}

# Give the envelope a verb and set $line to the state that it tells, or to nothing. It fails when a person wants to stop.
send() {
  # An earlier asker may still write: each has a file of its own.
  asked=$((asked + 1))
  order "$1" >"$work/order.$asked"
  sh -c "$(cat "$work/loader")" <"$work/order.$asked" >"$work/answer.$asked" 2>/dev/null 3>&- 9>&- &
  sender=$!
  while :; do
    wait "$sender"
    if [ -n "$interrupted" ] && [ -z "$cancelled" ]; then
      note_cancel
      [ -n "$always" ] || return 1
    fi
    kill -0 "$sender" 2>/dev/null || break
  done
  line=$(grep -a "^unstick $id {\"frame\":\"state\"" "$work/answer.$asked" | tail -n 1)
}

# Start the script, or ask about the one that was started, until it is known how it stands.
learn() {
  verb=start resend=''
  if [ -z "$fresh" ]; then
    resend=yes
    [ -z "$acting" ] || verb=settle
  fi
  tries=0
  while :; do
    [ -z "$cancelled" ] || [ -n "$always" ] || verb=stop
    send "$verb" || continue
    member state
    case $value in
      '' | unknown | running) tries=$((tries + 1)) ;;
      *) break ;;
    esac
    [ "$value" = running ] && say "  it still runs; this waits" && tries=0
    [ "$tries" -lt 4 ] || break
    verb=settle resend=yes
    sleep 1
  done
}

keep_stream() {
  find "/run/unstick/$id" -name "$1.[0-9]*" 2>/dev/null | sort -t. -k2,2n | while IFS= read -r part; do
    cat "$part"
  done >"$output/$id.$1"
}

packed() { head -c "$limit" "$output/$id.$1" | gzip -nc | base64 -w0; }

# Append how an attempt stands, with its output.
append_result() {
  limit=$most
  [ "$(wc -c <"$journal")" -lt "$room" ] || limit=$little
  members=",\"attempt\":\"$id\"" cut=false
  case $line in
    # It was not begun, since it could not be confined.
    *'"unconfined":"refused'*) line=$(printf '%s\n' "$line" | sed 's/"state":"finished"/"state":"not_started","reason":"refused"/') ;;
  esac
  for name in state reason unconfined exit_code signal ended_by pid wchan started finished stdout_bytes stderr_bytes targets; do
    member "$name"
    [ -n "$value" ] || [ "$name" != state ] || value=unknown
    [ -z "$value" ] || members="$members,\"$name\":\"$value\""
  done
  case $line in *_cut\":*) cut=true ;; esac
  for stream in stdout stderr; do
    keep_stream "$stream"
    [ "$(wc -c <"$output/$id.$stream")" -le "$limit" ] || cut=true
    members="$members,\"$stream\":\"$(packed "$stream")\""
  done
  append result "$members,\"truncated\":\"$cut\""
}

# Play one script of $step: `attempt KIND FILE-OF-TARGETS`. Sets $state, $code and what else is known of it.
attempt() {
  kind=$1 number=$((number + 1)) id=$run-$((number))
  cat "$2" >"$work/given"
  text=$(sha256sum <"$work/$step.$kind")
  record intended ",\"step\":\"$step\",\"script\":\"$kind\",\"round\":\"$round\",\"attempt\":\"$id\",\
\"script_sha256\":\"${text%% *}\",\"acting\":\"$acting\",\"bound\":\"$bound\",\"not_after\":\"$not_after\",\
\"targets\":\"$(base64 -w0 <"$work/given")\""
  intended=$now
  if ! next_line; then
    say "$step: $kind, at most $timeout s"
    learn
    append_result
    position=$((seq - 1))
    next_line
  fi
  fits result
  read_result
}

read_result() {
  told=$now
  member state && state=$value
  member exit_code && code=$value
  member signal && signal=$value
  member ended_by && ended=$value
  member reason && refusal=$value
  member pid && pid=$value
  member wchan && wchan=$value
  member unconfined
  [ -z "$value" ] || say "  unconfined: the kernel did not keep this look from touching the node ($value; docs/nodes.md)"
  member boot && last_boot=$value
  first_boot=${first_boot:-$value}
  if [ "$kind" = check ]; then
    member targets
    printf '%s' "$value" | base64 -d | grep -av '^$' >"$work/found"
  fi
  [ "$state" != unkillable ] || leftover="the $kind of step $step (pid $pid, waits in ${wchan:-?})"
  if [ "$kind" = run ]; then
    ran=$acting ran_ended=$ended
    member stdout_bytes && said=${value:-0}
    if [ "$state" = not_started ]; then ran=''; else cat "$work/given" >"$work/sent.$step"; fi
  fi
}

# ---- persons

note_cancel() {
  if [ -n "$interrupted" ] && [ -z "$cancelled" ] && [ "$position" -ge "$lines" ]; then
    cancelled=yes
    say 'Stopping: nothing more is begun, and what has to be undone is undone.'
    append cancelled ",\"by\":\"$by\""
  fi
}

# Read a line that a person types; without a terminal there is nobody to ask.
ask() {
  printf '%s ' "$1" >&3
  # By a process that is waited for: a signal ends a wait in every shell, and a read in some.
  (IFS= read -r answer && printf '%s' "$answer" >"$work/typed") <&3 9>&- &
  reader=$!
  while [ -z "$interrupted" ]; do
    if wait "$reader"; then
      typed=$(cat "$work/typed")
      return 0
    fi
    kill -0 "$reader" 2>/dev/null || break
  done
  kill "$reader" 2>/dev/null
  [ -n "$interrupted" ] || refuse '' 'The terminal is gone: stopped. Run this script again, and it goes on here.'
  return 1
}

ask_name() {
  while :; do
    ask "$1" || return 1
    case $typed in
      '' | *[!A-Za-z0-9._@-]*) say 'A name has letters, digits and . _ @ -' >&3 ;;
      *) [ "${#typed}" -le 64 ] && return 0 ;;
    esac
  done
}

lower() { printf '%s' "$1" | tr '[:upper:]' '[:lower:]'; }

ask_second() {
  while :; do
    ask_name "A second person decides, and not $by. Nobody proves who types, so the record will say so. Name:" || return 1
    clear=yes
    for one in $persons; do
      [ "$(lower "$one")" != "$(lower "$typed")" ] || clear=''
    done
    [ -z "$clear" ] || return 0
    say "$typed began or resumed this run and cannot be the second person." >&3
  done
}

# Show what the check has said and found, and set $answer, $who and $reason.
ask_gate() {
  {
    say '' "==== gate of step $step on $node: $title"
    say '---- what the check has said (signs that are no text are written out)'
    cat -v "$output/$check_id.stdout" "$output/$check_id.stderr"
    say '---- what it would act on'
    cat -v "$work/found"
    say '' "The script itself, in another terminal: sh $0 --show $step run" \
      "The question is open until $(date -u -d "@$((expires / 1000000))" '+%Y-%m-%d %H:%M UTC')."
  } >&3
  who=$by reason='' answer=''
  if [ "$gate" = second_person ]; then
    ask_second || return 1
    who=$typed
  fi
  while [ -z "$answer" ]; do
    ask "$who: type the node's name ($node) to let it act on exactly these, or no:" || return 1
    case $typed in
      "$node") answer=approved ;;
      no) answer=denied ;;
      *) say "That is neither $node nor no." >&3 ;;
    esac
  done
  if [ "$answer" = denied ]; then
    ask 'Why not:' || return 1
    reason=$typed
  fi
}

close_gate() { record answer ",\"step\":\"$step\",\"round\":\"$round\",\"answer\":\"$1\",\"why\":\"$2\"" && gate_open=''; }

# Open a gate and wait for the answer; succeed when the step may act.
at_gate() {
  check_id=$id gate_boot=$last_boot
  record gate ",\"step\":\"$step\",\"round\":\"$round\",\"kind\":\"$gate\",\"check\":\"$check_id\""
  expires=$((now + approval * 1000000)) gate_open=yes
  if ! next_line; then
    see_boot
    look_at_clock
    if [ "$boot" != "$gate_boot" ]; then
      answer=void who='' reason='the node booted'
    elif [ "$now" -ge "$expires" ]; then
      answer=expired who='' reason=''
    elif ! ask_gate; then
      note_cancel
      answer=void who='' reason='cancelled'
    else
      look_at_clock
      [ "$now" -lt "$expires" ] || answer=expired
    fi
    append answer ",\"step\":\"$step\",\"round\":\"$round\",\"answer\":\"$answer\",\"who\":\"$who\",\
\"why\":\"$(printf '%s' "$reason" | head -c 500 | base64 -w0)\""
    position=$((seq - 1))
    next_line
  fi
  fits answer
  member answer
  case $value in
    approved) return 0 ;;
    denied) finish denied '' denied '' 'A person denied it.' ;;
    expired) finish denied '' expired '' 'Nobody answered in time; nothing was run.' ;;
    *) gate_open='' round_end=again why='the approval is void' ;;
  esac
  return 1
}

# ---- one step, by the table of outcomes

finish() { round_end='done' outcome=$1 verdict=$2 ends=$3 known=$4 why=$5; }
stuck() { round_end=stuck why=$1; }
could_not_look() {
  finish failed '' failed yes "The $kind could not look (${state}${code:+, exit $code}${refusal:+, $refusal}); nothing was touched."
  [ "$state" != unknown ] || outcome=unreachable
}

# Succeed when a check or a run may be begun: of a step that may boot the node none, while nothing is stored of it.
may_begin() {
  may_send || return 1
  [ -n "$reboots" ] && [ -z "$evidence" ] || return 0
  finish failed '' failed '' 'It may boot the node, and nothing is stored of how the node was before; nothing was run.'
  return 1
}

# Succeed when a script may be begun.
may_send() {
  note_cancel
  if [ -n "$leftover" ]; then
    stuck "Step $step is not played while $leftover cannot be killed."
    return 1
  fi
  [ -n "$cancelled" ] && [ -z "$always" ] || return 0
  round_end=cancelled
  return 1
}

reading() { acting='' bound='' not_after=$((now / 1000000 + 86400)); }

# Sleep until a moment in microseconds.
pause_until() {
  look_at_clock
  [ "$now" -ge "$1" ] || sleep $((($1 - now) / 1000000 + 1))
}

# Ask verify, once or until `within` ends, and set $seen: yes, no, blind.
prove() {
  seen=yes
  [ -n "$has_verify" ] || return 0
  pause=1 until=0
  while :; do
    may_send || return 1
    look_at_clock
    reading
    attempt verify "$2"
    [ "$until" != 0 ] || until=$((intended + ${within:-0} * 1000000))
    case $state:$ended:$code in
      finished::0) seen=yes && return 0 ;;
      finished::1 | finished::77) seen=no ;;
      *) seen=blind ;;
    esac
    [ -z "$1" ] && [ -n "$within" ] && [ "$state" != unkillable ] && [ "$intended" -lt "$until" ] || return 0
    if [ -n "$cancelled" ] && [ -z "$always" ]; then continue; fi
    wake=$((told + pause * 1000000))
    [ "$wake" -le "$until" ] || wake=$until
    [ "$position" -lt "$lines" ] || pause_until "$wake"
    pause=$((pause < 8 ? pause * 2 : 15))
  done
}

judge_idle() {
  [ -n "$has_verify" ] || { finish ok '' '' '' 'There is nothing to do.'; return; }
  prove '' "$work/none" || return
  case $seen in
    yes) finish ok well '' '' 'There is nothing to do.' ;;
    no) finish failed not_cured failed yes 'There is nothing to do here, and the node is not well.' ;;
    *) stuck 'Nothing was done, and verify could not look.' ;;
  esac
}

assertion() {
  prove '' "$1" || return
  case $seen in
    yes) finish ok well '' '' '' ;;
    no) finish failed not_cured failed yes 'Verify says that the node is not well.' ;;
    *) stuck 'Verify could not look.' ;;
  esac
}

judge_acted() {
  acted='' vanished='' how="The run ended with ${code:-signal $signal}."
  [ -z "$over_boot" ] && [ "$code" != 0 ] || acted=yes
  [ "$code" != 77 ] || vanished=yes
  [ -z "$ended" ] || how='The run was ended at its deadline.'
  once=yes
  [ -z "$acted$vanished" ] || once=''
  prove "$once" "$work/acted_on" || return
  case $seen:$acted:$vanished in
    blind:*) stuck "Step $step has acted, and verify could not look." ;;
    yes:yes:*) finish changed cured '' '' '' ;;
    yes::yes) finish skipped cleared '' '' 'No approved target was left.' ;;
    yes:*) finish failed cured failed '' "$how The node is well nevertheless." ;;
    no:yes:*) finish failed not_cured failed yes 'Verify says that the node is not well.' ;;
    *) finish failed not_cured failed yes "$how Verify says that the node is not well." ;;
  esac
}

# Take back an approval that was not used.
void_gate() {
  [ -z "$gate_open" ] || close_gate void "$(printf '%s' "$1" | base64 -w0)"
  round_end=again why=$1
}

run_it() {
  cat "$1" >"$work/acted_on"
  wait=5 since=0 over_boot=''
  while :; do
    look_at_clock
    if [ -n "$gate_open" ] && [ "$position" -ge "$lines" ] && [ "$now" -ge "$expires" ]; then
      void_gate 'The approval was not used before it expired.'
      return
    fi
    may_begin || return
    if [ -n "$acts" ] && [ -z "$run_boot" ]; then
      finish failed '' failed yes 'Nothing has said which boot of the node this is; nothing was run.'
      return
    fi
    reading
    if [ -n "$acts" ]; then
      acting=acting bound=$run_boot
      [ -z "$gate_open" ] || not_after=$((expires / 1000000))
    fi
    [ -z "$reboots" ] || [ "$position" -lt "$lines" ] ||
      say "$step may boot the node. When this terminal is lost, come back and run this script again: it goes on here."
    attempt run "$work/acted_on"
    [ "$since" != 0 ] || since=$intended
    [ "$state:$refusal:$acting" = not_started:held:acting ] || break
    if [ $((told - since)) -ge 3600000000 ]; then
      finish failed '' failed '' 'The node was not free in time.'
      return
    fi
    say '  another run acts on the node; this waits (Ctrl-C ends it)'
    [ "$position" -lt "$lines" ] || pause_until $((told + wait * 1000000))
    wait=$((wait < 40 ? wait * 2 : 60))
  done
  judge_run
}

judge_run() {
  if [ -z "$acts" ]; then
    case $state:$ended:$code in
      finished::0 | finished::77) ;;
      *) could_not_look; return ;;
    esac
    [ "$said" = 0 ] || say "  what it has said: $output/$id.stdout"
    if [ -n "$has_verify" ]; then assertion "$work/none"; else finish ok '' '' '' ''; fi
    return
  fi
  case $state in
    finished) judge_acted ;;
    rebooted)
      if [ -n "$reboots" ]; then
        over_boot=yes
        judge_acted
      else
        stuck "The node booted while step $step ran; what it did by then is not known."
      fi
      ;;
    not_started)
      case $refusal in
        other_boot | too_late | void) void_gate "not started: $refusal" ;;
        *) finish failed '' failed yes "The run was not started: $refusal." ;;
      esac
      ;;
    unkillable) stuck "The run of step $step cannot be killed (pid $pid, waits in ${wchan:-?})." ;;
    *) stuck "Nobody could learn how the run of step $step ended." ;;
  esac
}

play_round() {
  round_end='' gate_open='' run_boot='' ran='' ran_ended='' said=0
  if [ -n "$has_check" ]; then
    may_begin || return
    look_at_clock
    reading
    attempt check "$work/none"
    case $state:$ended:$code in
      finished::0) ;;
      finished::77) judge_idle; return ;;
      *) could_not_look; return ;;
    esac
    [ -n "$has_run" ] || { assertion "$work/found"; return; }
    run_boot=$last_boot
    [ "$gate" = none ] || at_gate || return
    run_it "$work/found"
  elif [ -n "$has_run" ]; then
    run_boot=$last_boot
    undone=$work/none
    [ -z "$undoes" ] || undone=$work/sent.$undoes
    run_it "$undone"
  else
    assertion "$work/none"
  fi
}

# Say how a step ends that was stopped.
stopped_step() {
  if [ -z "$ran" ]; then
    finish '' '' cancelled '' 'Stopped before it acted.'
  elif [ -n "$ran_ended" ]; then
    finish failed '' cancelled '' 'Its run was stopped.'
  else
    finish unknown '' cancelled '' 'It has acted; the stop came before it was verified.'
  fi
}

# Look up whether a step is played behind what became of earlier ones; which outcomes let it be was judged at the export.
condition_holds() {
  [ -n "$asks" ] || return 0
  set --
  for one in $asks; do set -- "$@" "$(cat "$work/outcome.$one")"; done
  case " $plays_behind " in *" $(IFS=:; printf '%s' "$*") "*) return 0 ;; esac
  return 1
}

play_step() {
  outcome='' verdict='' ends='' known='' why='' round=0 again=0 failures=0
  if [ -n "$always" ]; then
    [ -e "$work/sent.$undoes" ] || { finish skipped '' '' '' "Step $undoes was not sent."; note_step; return; }
  elif [ -n "$course" ]; then
    return
  elif [ -n "$left_out" ] || ! condition_holds; then
    finish skipped '' '' '' 'Its condition is false.'
    note_step
    return
  fi
  [ "$position" -lt "$lines" ] || say '' "== $step: $title"
  note_cancel
  if [ -n "$cancelled" ] && [ -z "$always" ]; then
    finish '' '' cancelled '' 'Not reached.'
    note_step
    return
  fi
  while :; do
    round=$((round + 1))
    play_round
    [ "$round_end:$known" != done:yes ] || [ -z "$cancelled" ] || [ -n "$always" ] || round_end=cancelled
    case $round_end in
      again)
        again=$((again + 1))
        [ "$again" -gt 2 ] || continue
        finish failed '' failed '' "The run was not started 3 times; the last time: $why"
        ;;
      cancelled) stopped_step ;;
      stuck) end_stuck ;;
      *)
        failures=$((failures + 1))
        # shellcheck disable=SC2086 # one pause a word
        set -- $retry
        if [ -n "$known" ] && [ "$failures" -le "$#" ]; then
          shift $((failures - 1))
          say "$step: $why It is tried again."
          [ "$position" -lt "$lines" ] || pause_until $((told + $1 * 1000000))
          known=''
          note_cancel
          if [ -z "$cancelled" ] || [ -n "$always" ]; then continue; fi
          stopped_step
        fi
        ;;
    esac
    break
  done
  note_step
}

# Show what the last script has said, where a step did not end well.
show_last() {
  for one in "$output/$id.stdout" "$output/$id.stderr"; do
    [ -s "$one" ] || continue
    say "  ---- the end of $one"
    tail -n 5 "$one" | cat -v | sed 's/^/  /'
  done
}

# Keep how a step ended for the end of the run.
note_step() {
  case $outcome in failed | unreachable | unknown) show_last ;; esac
  printf '%s' "$outcome" >"$work/outcome.$step"
  say "$step: ${outcome:-not played}${verdict:+ ($verdict)}${why:+. $why}"
  verdicts="$verdicts $verdict"
  case $outcome in failed | unreachable) broken=yes ;; esac
  [ "$outcome:$read_only" != ok:yes ] || [ "$said" = 0 ] || evidence=yes
  [ -n "$ends" ] || return 0
  [ "$ends:$verdict" != failed: ] || blind=yes
  [ "$on_failure" = continue ] && [ -z "$always" ] && [ -z "$leftover" ] && [ "$ends" = failed ] && return 0
  if [ -z "$course" ] || [ "$ends" = failed ]; then course=$ends; fi
}

# ---- the end

end_stuck() {
  record ended ',"state":"stuck","verdict":"unknown"'
  say ''
  show_last
  say "STUCK at step $step: $why" 'Nobody knows how it ended, so nothing more is done: look at the node yourself.' \
    "All that its scripts have said: $output"
  say_import
  say '  and then, when you know how the node is: unstick resolve'
  exit 4
}

say_import() {
  say "The journal is $journal" 'When the service is back, on your own machine:' \
    "  ssh $node sudo cat $journal >$run.journal" "  unstick import $run.journal --reason 'why it was done by hand'" \
    "  unstick show $run"
}

end_run() {
  state=$course
  [ -n "$state" ] || [ -z "$broken" ] || state=failed
  state=${state:-succeeded} verdict=''
  for one in well cleared cured not_cured unknown; do
    case "$verdicts " in *" $one "*) verdict=$one ;; esac
  done
  case $state in denied | expired | cancelled) verdict='' ;; esac
  [ -z "$blind" ] || [ "$verdict" = not_cured ] || [ "$verdict" = unknown ] || verdict=''
  record ended ",\"state\":\"$state\",\"verdict\":\"$verdict\""
  say '' "ENDED $state${verdict:+, verdict $verdict}"
  [ "$verdict" != not_cured ] || [ -z "$escalates" ] ||
    say "The service would go on with $escalates now. By hand: unstick export $escalates --node $node"
  say_import
  [ "$state" = succeeded ] || exit 1
  exit 0
}

# ---- the beginning

show() {
  [ -n "${2:-}" ] || refuse "sh $0 --show STEP check|run|verify"
  pieces "$1.$2" || refuse "Step $1 has no $2."
}

# Unpack the pieces, and refuse bytes that are not those of the plan.
unpack() {
  work=$(mktemp -d) || exit 2
  trap 'rm -rf "$work"' EXIT
  : >"$work/none"
  while read -r name wanted; do
    pieces "$name" >"$work/$name"
    found=$(sha256sum <"$work/$name")
    [ "${found%% *}" = "$wanted" ] || refuse "The bytes of $name are not those of the plan: nothing is done." 'Copy the script again.'
  done <<LIST
$sums
LIST
}

find_node() {
  machine=$(uname -n | tr -cd 'A-Za-z0-9._-') # it stands in the journal as a word
  short=${machine%%.*}
  case " $node $address " in
    *" $machine "* | *" $short "*) known_by=hostname ;;
    *)
      known_by=typed
      say "This machine calls itself $machine. The script was made for $node (address $address)." >&3
      ask "When you are sure that this is $node, type $node:" || exit 2
      [ "$typed" = "$node" ] || refuse 'Not sure: nothing is done.'
      ;;
  esac
}

# Set $run to an id that is of this journal alone: a script that is played a second time elsewhere is another run.
name_run() {
  if [ "$lines" != 0 ]; then
    line=$(head -n 1 "$journal")
    member run
    run=$value
    return
  fi
  for one in "/run/unstick/$run"-*; do
    [ ! -e "$one" ] || refuse "This script was begun here already, and its journal is not $journal: nothing is done twice." \
      "Name the journal: sudo env UNSTICK_JOURNAL=FILE sh $0. Or look at the node, and export the runbook again."
  done
  run=$run-$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n')
}

main() {
  case ${1:-} in
    --show) show "${2:-}" "${3:-}" && exit ;;
    '') ;;
    *) refuse "sh $0                 # plays it, and goes on where it was stopped" "sh $0 --show STEP run   # prints a script" ;;
  esac
  [ "$(id -u)" = 0 ] || refuse 'It must run as root: sudo sh FILE'
  # In a shell of its own: an `exec` that fails ends its shell.
  (exec 3<>/dev/tty) 2>/dev/null || refuse 'There is no terminal, so nobody could be asked: nothing is done.' \
    'Copy the script to the node and run it there (ssh -t NODE sudo sh FILE).'
  exec 3<>/dev/tty
  for program in bash setsid flock base64 gzip sha256sum sync od; do
    command -v "$program" >/dev/null || refuse "$program is missing on this node."
  done
  umask 077
  unpack
  journal=${UNSTICK_JOURNAL:-/var/lib/unstick/by-hand/$run.journal}
  output=${journal%.journal}.output lock=$journal.lock
  mkdir -p "$(dirname "$journal")" "$output" || exit 2
  case $may_boot:$(stat -f -c %T "$output") in
    yes:tmpfs | yes:ramfs)
      refuse "$journal would be gone with a boot, and this runbook may boot the node: nothing is done." \
        "Name a file that stays: sudo env UNSTICK_JOURNAL=/a/disk/$run.journal sh $0"
      ;;
  esac
  exec 9>"$lock"
  flock -n 9 || refuse 'This script is running already.'
  touch "$journal" || exit 2
  chain=$digest
  check_journal
  trap 'interrupted=yes' INT TERM
  name_run
  [ "$lines" = 0 ] || say "It goes on behind line $lines of $journal${torn:+ (a line that was not whole is left out)}."
  say '' "$about" "$runbook on $node" "plan $digest" '' "$listed" '' \
    'Before a step acts that asks, it shows what it has found, and waits for you. Ctrl-C stops, and undoes what has to' \
    'be undone. Whatever else stops it: run it again, and it goes on.' ''
  ask_name 'Who are you? Name:' || exit 2
  me=$typed
  find_node
  if [ "$lines" = 0 ]; then
    append begun ",\"run\":\"$run\",\"plan\":\"$digest\",\"node\":\"$node\",\"by\":\"$me\",\"machine\":\"$machine\",\
\"known_by\":\"$known_by\",\"header\":\"$header\""
  else
    append resumed ",\"by\":\"$me\",\"machine\":\"$machine\",\"known_by\":\"$known_by\""
  fi
  position=0
  next_line
  fits begun
  member by
  by=$me persons="$persons $value"
  plan
  end_run
}
