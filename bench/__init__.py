"""Speed, as ratios against raw paramiko and Ansible in the same run on the same machine; `make bench` prints them."""
