#!/bin/sh
# The power supply of one booted node: node_supervisor.sh FOLDER nspawn...
# nspawn ends with 133 when the node asked for a reboot, which is when it is started again. Files in FOLDER change that:
# `reboot_delay` (seconds before it comes back), `no_return` (it stays away), `crash` (whatever it ended with was a crash).
folder=$1
shift
while :; do
    "$@" &
    child=$!
    echo "$child" >"$folder/nspawn.pid.new"
    mv "$folder/nspawn.pid.new" "$folder/nspawn.pid"
    wait "$child"
    code=$?
    rm -f "$folder/nspawn.pid"
    echo "ended $code" >>"$folder/boots"
    if [ "$code" != 133 ] && ! rm "$folder/crash" 2>/dev/null; then
        exit "$code"
    fi
    [ ! -e "$folder/no_return" ] || exit 99
    sleep "$(cat "$folder/reboot_delay" 2>/dev/null || echo 0)"
done
