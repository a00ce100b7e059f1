#!/bin/bash
# Runs once inside the new root file system (chroot): users, sudo, sshd, and no unit that a node does not need.
set -euo pipefail

# The login user of a real agent: a system user, so that logind's RemoveIPC never concerns it.
useradd --system --create-home --home-dir /var/lib/unstick-agent --shell /bin/bash unstick-agent
useradd --system --create-home --home-dir /var/lib/nopass --shell /bin/bash nopass
useradd --create-home --shell /bin/bash alice
printf 'unstick-agent ALL=(ALL) NOPASSWD: ALL\nnopass ALL=(ALL) ALL\n' >/etc/sudoers.d/lab
chmod 0440 /etc/sudoers.d/lab
# sudo asks nopass for a password that nobody has.
usermod --password '*' nopass
usermod --password '*' unstick-agent
usermod --password '*' alice

for user in root unstick-agent nopass alice; do
    home=$(getent passwd "$user" | cut -d: -f6)
    install -d -m 700 -o "$user" -g "$(id -gn "$user")" "$home/.ssh"
    install -m 600 -o "$user" -g "$(id -gn "$user")" /tmp/authorized_keys "$home/.ssh/authorized_keys"
done

cat >/etc/ssh/sshd_config.d/lab.conf <<'EOF'
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100:30:200
EOF
# Each node makes its own.
rm -f /etc/ssh/ssh_host_*

systemctl enable ssh.service
systemctl mask \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
    console-getty.service getty@.service getty-static.service systemd-pstore.service \
    systemd-networkd-wait-online.service systemd-timesyncd.service

: >/etc/machine-id
rm -f /etc/hostname /etc/resolv.conf /tmp/authorized_keys /tmp/prepare.sh
