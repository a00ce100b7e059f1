#!/usr/bin/env bash
# Make stand-ins for the two base images out of Debian packages, under the names that Dockerfile and compose file use.
# They prove the steps and the wiring, not the published images: where an image registry is reached, those are used.
# Usage: base_images.sh CACHE PODMAN...    (CACHE keeps the root file systems; PODMAN is the command with its options)
set -euo pipefail

cache=$1
shift
podman=("$@")
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$cache"

# rootfs NAME PACKAGES SCRIPT: a Debian 12 of these packages; SCRIPT runs outside, with the folder as $1.
rootfs() {
    [[ -e $cache/$1.tar ]] || mmdebstrap --quiet --mode=root --variant=minbase --include="$2" --customize-hook="$3" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$cache/$1.part.tar"
    [[ -e $cache/$1.tar ]] || mv "$cache/$1.part.tar" "$cache/$1.tar"
}

# The build reaches the package index the way this machine does, so it trusts the authorities that this machine trusts.
# shellcheck disable=SC2016  # $1 is the hook's own argument.
trust='cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
printf "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ndisable-pip-version-check = true\n" >"$1/etc/pip.conf"'
rootfs python ca-certificates,python3,python3-venv,python-is-python3,libstdc++6 "$trust"
rootfs postgres postgresql-15,postgresql-client-15 true

"${podman[@]}" image exists docker.io/library/python:3.11-slim-bookworm ||
    "${podman[@]}" import --quiet --change 'CMD ["python"]' "$cache/python.tar" docker.io/library/python:3.11-slim-bookworm
"${podman[@]}" image exists localhost/postgresql-15 ||
    "${podman[@]}" import --quiet "$cache/postgres.tar" localhost/postgresql-15
"${podman[@]}" build --quiet --isolation=chroot --format=docker --tag docker.io/library/postgres:15 --file - "$here" <<'END'
FROM localhost/postgresql-15
COPY postgres_entrypoint.sh /usr/local/bin/docker-entrypoint.sh
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
END
