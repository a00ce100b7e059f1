#!/bin/sh
# What the compose file uses of the postgres image's entry point: a password, a user, a database, a data folder.
set -eu

data=${PGDATA:-/var/lib/postgresql/data}
: "${POSTGRES_PASSWORD:?}" "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}"
as_postgres() {
    setpriv --reuid=postgres --regid=postgres --init-groups "$@"
}

install -d -o postgres -g postgres -m 700 "$data"
if [ ! -e "$data/PG_VERSION" ]; then
    secret=$(mktemp)
    printf '%s' "$POSTGRES_PASSWORD" >"$secret"
    chown postgres "$secret"
    as_postgres initdb --encoding=UTF8 --locale=C.UTF-8 \
        --username="$POSTGRES_USER" --pwfile="$secret" --auth=scram-sha-256 --pgdata="$data" >/dev/null
    rm "$secret"
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    as_postgres pg_ctl --pgdata="$data" --wait --silent --options="-c listen_addresses= -k /tmp" start
    PGPASSWORD=$POSTGRES_PASSWORD as_postgres createdb --host=/tmp \
        --username="$POSTGRES_USER" --owner="$POSTGRES_USER" "$POSTGRES_DB"
    as_postgres pg_ctl --pgdata="$data" --wait --silent stop
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups "$@" -D "$data" -c listen_addresses='*' -k /tmp
