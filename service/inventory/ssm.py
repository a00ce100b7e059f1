"""Nodes that Systems Manager manages: DescribeInstanceInformation, the only right that it needs.

That answer has no tags, and a listing of an instance's tags is another right; so tags are only used as filters, one a
call (AWS combines a tag filter with no other). A ping is a hint: an agent reports every five minutes
(amazon-ssm-agent, agent/appconfig/constants.go, DefaultSsmHealthFrequencyMinutes), and Online tells nothing of the GPU.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore import exceptions as botocore
from botocore.config import Config
from botocore.parsers import ResponseParserError

from service.domain.errors import SourceSilent
from service.inventory.source import MOST_FOUND, Found, SourceAnswer, SsmQuestion, gather

#: What boto3 raises; a wrong endpoint or time is a ValueError.
_RAISED = (botocore.BotoCoreError, botocore.ClientError, ResponseParserError, ValueError, OSError)
_PAGE = 50
_CONNECT_SECONDS = 5.0
#: All calls of one question together.
MOST_SECONDS = 120.0


class SsmLook:
    """Asks one account and region. For one thread at a time."""

    def __init__(
        self, question: SsmQuestion, *, answer_seconds: float = 15.0, most_seconds: float = MOST_SECONDS
    ) -> None:
        """Take what to ask, and how long one call and the whole may take; the client is made at the first question."""
        self._question = question
        self._answer_seconds = answer_seconds
        self._most_seconds = most_seconds
        self._client: Any = None

    def __call__(self) -> SourceAnswer:
        """Return every managed Linux instance; SourceSilent when AWS did not answer all of it."""
        until = time.monotonic() + self._most_seconds
        question = self._question
        try:
            rows = {str(row["InstanceId"]): row for row in self._rows(question.tag, until)}
            names = self._names(rows, until)
            pools = {pool: self._ids(tag, until) for pool, tag in question.pools.items()}
        except _RAISED as error:
            raise SourceSilent(f"SSM did not answer: {_said(error)}.", _WAY_OUT) from error
        return gather(
            Found(
                name,
                instance=instance,
                address=rows[instance].get("IPAddress"),
                pools=tuple(pool for pool, ids in pools.items() if instance in ids),
                hints=_hints(rows[instance]),
            )
            for name, instance in names
            if rows[instance].get("PlatformType") == "Linux"
        )

    def _names(self, rows: Mapping[str, Mapping[str, Any]], until: float) -> list[tuple[str, str]]:
        """Return names with the instances that bear them: as tags say, or as the machines call themselves."""
        if not self._question.names:
            return [(str(row.get("ComputerName") or instance), instance) for instance, row in rows.items()]
        found = []
        for name in self._question.names:
            found += [(name, instance) for instance in self._ids(f"Name={name}", until) if instance in rows]
        return found

    def _ids(self, tag: str, until: float) -> list[str]:
        return list(dict.fromkeys(str(row["InstanceId"]) for row in self._rows(tag, until)))

    def _rows(self, tag: str | None, until: float) -> Iterator[Mapping[str, Any]]:
        key, _, value = (tag or "").partition("=")
        more = {"Filters": [{"Key": f"tag:{key}", "Values": [value]}]} if tag is not None else {}
        count = 0
        pages = self._made().get_paginator("describe_instance_information")
        for page in pages.paginate(PaginationConfig={"PageSize": _PAGE}, **more):
            rows = _listed(page)
            yield from rows
            count += len(rows)
            if count > MOST_FOUND:
                raise SourceSilent(f"SSM has more than {MOST_FOUND} instances here.", "Give the source a `tag`.")
            if time.monotonic() > until:
                raise SourceSilent(f"SSM did not answer all of it within {self._most_seconds:.0f} s.", _WAY_OUT)

    def _made(self) -> Any:
        if self._client is None:
            session = boto3.session.Session(region_name=self._question.region, profile_name=self._question.profile)
            self._client = _client(session, self._answer_seconds)
        return self._client


@dataclass(frozen=True)
class Account:
    """What was learnt of one account and region."""

    region: str
    #: Where boto3 found them, in its own word: env, shared-credentials-file, iam-role, assume-role, ...
    credentials: str
    #: Those that SSM manages, of the instances that were asked for.
    managed: frozenset[str]


def look_at_account(
    region: str | None, profile: str | None, *, instances: Sequence[str], answer_seconds: float = 15.0
) -> Account:
    """Ask for these instances, or for any; SourceSilent without region or credentials, or when AWS does not answer."""
    try:
        session = boto3.session.Session(region_name=region, profile_name=profile)
        if session.region_name is None:
            raise SourceSilent("No region is set.", "Name `region` in the inventory, or set AWS_DEFAULT_REGION.")
        credentials = session.get_credentials()
        if credentials is None:
            raise SourceSilent("No credentials are found.", _NO_CREDENTIALS)
        client = _client(session, answer_seconds)
        managed: set[str] = set()
        for chunk in [instances[at : at + _PAGE] for at in range(0, len(instances), _PAGE)] or [()]:
            more = {"Filters": [{"Key": "InstanceIds", "Values": list(chunk)}]} if chunk else {}
            answer = client.describe_instance_information(MaxResults=_PAGE, **more)
            managed |= {str(row["InstanceId"]) for row in _listed(answer)}
    except _RAISED as error:
        raise SourceSilent(f"SSM did not answer: {_said(error)}.", _WAY_OUT) from error
    return Account(session.region_name, str(credentials.method), frozenset(managed & set(instances)))


def _listed(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the rows of an answer; botocore lets pass one without a list, as of a proxy, and takes it for well."""
    rows = answer.get("InstanceInformationList")
    if not isinstance(rows, list) or not all(isinstance(row.get("InstanceId"), str) for row in rows):
        raise SourceSilent("What answers for SSM says what is no list of instances.", _WAY_OUT)
    return rows


def _client(session: boto3.session.Session, answer_seconds: float) -> Any:
    config = Config(
        retries={"mode": "adaptive", "total_max_attempts": 3},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=answer_seconds,
        user_agent_extra="unstick",
    )
    return session.client("ssm", config=config)


_NO_CREDENTIALS = "Give this machine a role, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a `profile`."
_WAY_OUT = "Look at `region`, `profile` and the rights of unstick (ssm:DescribeInstanceInformation)."


def _hints(row: Mapping[str, Any]) -> dict[str, str]:
    hints = {"ssm_ping": str(row.get("PingStatus", "")), "ssm_agent": str(row.get("AgentVersion", ""))}
    last = row.get("LastPingDateTime")
    if isinstance(last, datetime):
        hints["ssm_last_ping"] = last.astimezone(UTC).isoformat(timespec="seconds")
    return {name: value for name, value in hints.items() if value}


def _said(error: Exception) -> str:
    if isinstance(error, botocore.ClientError):
        told = error.response.get("Error", {})
        return f"{told.get('Code', '')}: {told.get('Message', '')}".strip().rstrip(".")[:300]
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".")[:300] if lines else type(error).__name__
