# One image, two stages: the first builds the environment from the lock, the second has neither compiler nor pip cache.
# It carries kubectl, for a controller in this container; scontrol it does not: docs/nodes.md, "Controllers in containers".
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/unstick \
    && /opt/unstick/bin/pip install --no-cache-dir --quiet --require-hashes -r requirements-build.lock \
    && /opt/unstick/bin/pip install --no-cache-dir --quiet --require-hashes -r requirements.lock
COPY . .
RUN /opt/unstick/bin/pip install --no-cache-dir --quiet --no-deps --no-build-isolation . \
    && /opt/unstick/bin/pip uninstall --quiet --yes pip

FROM python:3.11-slim-bookworm
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends kubernetes-client </dev/null >/dev/null \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/unstick --create-home --shell /usr/sbin/nologin unstick
COPY --from=build /opt/unstick /opt/unstick
COPY runbooks /usr/share/unstick/runbooks
ENV PATH=/opt/unstick/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    UNSTICK_HOST=0.0.0.0 \
    UNSTICK_PORT=8000 \
    UNSTICK_CONFIG=/etc/unstick \
    UNSTICK_RUNBOOKS=/usr/share/unstick/runbooks \
    UNSTICK_DATABASE_URL=sqlite:////var/lib/unstick/unstick.db
WORKDIR /var/lib/unstick
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ['UNSTICK_PORT'] + '/readyz', timeout=4)"]
ENTRYPOINT ["unstick"]
CMD ["serve"]
