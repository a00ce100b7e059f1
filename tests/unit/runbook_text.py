"""A small runbook as text, and what is found in it."""

from service.app.ports import RunbookSource
from service.app.read_runbook import examine

FILE = "runbooks/cure.yaml"
HEAD = """\
schema: 1
name: cure
title: A cure
owner: gpu-oncall
description: What it is for.
"""
STEP = """\
steps:
  - {id: look, title: Look, read_only: true, run: uptime, timeout: 1m}
"""
WHOLE = """\
schema: 1
name: cure
title: A cure
owner: gpu-oncall
description: |
  What is wrong.
prevention: Do not.
known_not_to_cure: [waiting]
needs: [gpu_uuid]
params:
  mode: {type: string, description: How., default: soft, choices: [soft, hard]}
  seconds: {type: integer, description: How long., min: 1, max: 60}
limits: {concurrent_nodes: 10%, canary: 1, max_failures: 2, cooldown: 30m, approval_expires: 2h}
escalate_to:
  - {when: node.scheduler == "slurm", runbook: reboot-slurm}
  - {runbook: reboot}
prelude: |
  shopt -s inherit_errexit
steps:
  - {id: look, title: Look, read_only: true, run: uptime, timeout: 1m}
  - id: save
    title: Save
    check: echo state >"$UNSTICK_TARGETS"
    run: change "$PARAM_MODE" "$NODE_GPU_UUID"
    verify: test
    approval: second_person
    waivable: false
    reboots: true
    timeout: 5m
    within: 45m
    retry: {attempts: 3, delay: 10s, backoff: 2}
    on_failure: continue
  - id: restore
    title: Restore
    where: controller
    when: steps["save"].outcome == "changed" && params.seconds > 5
    always: true
    undoes: save
    run: restore
    verify: test
    timeout: 90s
"""


def source(text: str, *, prelude: str = "") -> RunbookSource:
    return RunbookSource("cure", text, prelude, "")


def findings(text: str, *, prelude: str = "") -> list[str]:
    """Return every finding without the name of the file, such as `7: Step a: ...`."""
    found = examine(source(text, prelude=prelude), FILE).findings
    return [str(finding).removeprefix(f"{FILE}:") for finding in found]


def beginnings(told: list[str], expected: list[str]) -> list[str]:
    """Return what was told, each cut to the length of what is expected in its place."""
    lengths = [len(text) for text in expected] + [200] * len(told)
    return [text[:length] for text, length in zip(told, lengths, strict=False)]


def script_of(body: str) -> str:
    shell = "".join(f"      {line}\n" for line in body.split("\n"))
    return f"{HEAD}steps:\n  - id: a\n    title: A\n    timeout: 1m\n    verify: v\n    run: |\n{shell}"
