# shellcheck shell=bash
# Placed before every script: what counts executions, and what boots the machine.

# Write down that this script runs, once more.
count() { echo "$1 $2" >>/machine/executions; }

# Boot the machine at once: nobody hears how this script ends.
boot() {
  if [ -e /machine/pretends ]; then
    touch /machine/boot-now
  else
    systemctl reboot --force
  fi
  sleep 50
}
