"""The keys of rules.yaml and what each may hold, as pydantic models; what they say together is in `rules_file.py`."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, StringConstraints, WithJsonSchema, model_validator

from service.app.runbook_json_schema import DIALECT, clean
from service.app.runbook_schema import Duration, Entry, Line, Name, Script, SomeTime, Value, Word, refuse, shown
from service.domain.rule import NodeBy

#: A topic of SNS, as AWS writes it: arn:PARTITION:sns:REGION:ACCOUNT:NAME.
TOPIC = r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}$"


def _given(value: object) -> object:
    if isinstance(value, str | int):
        return value
    if isinstance(value, dict) and value.keys() == {"cel"} and isinstance(value["cel"], str) and value["cel"].strip():
        return CelEntry(cel=value["cel"])
    raise refuse(f"is {shown(value)}", "Write a value, or {cel: EXPRESSION} such as {cel: alert.labels.gpu}.")


class CelEntry(Entry):
    """A value that is found in the alert."""

    cel: Script = Field(description="CEL over `alert` that gives text, a whole number, true or false.")


_GIVEN_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": ["string", "integer", "boolean"]},
            {
                "type": "object",
                "properties": {"cel": {"type": "string"}},
                "required": ["cel"],
                "additionalProperties": False,
            },
        ]
    }
)
Given = Annotated[Any, BeforeValidator(_given), _GIVEN_SCHEMA]
Topic = Annotated[str, StringConstraints(pattern=TOPIC)]
Secrets = Annotated[list[Line], Field(min_length=1, max_length=2)]
_SECRETS = "One or two files with a secret each, beside this file; two while a secret is changed."


class AlertmanagerEntry(Entry):
    """Prometheus' Alertmanager; it signs nothing, so it shows a token."""

    kind: Literal["alertmanager"] = Field(description="Which sender it is.")
    token: Line = Field(description="The name of a token of the role source: `unstick token create --role source`.")


class GrafanaEntry(Entry):
    """Grafana's webhook contact point, signed by HMAC with a timestamp."""

    kind: Literal["grafana"] = Field(description="Which sender it is.")
    secret_files: Secrets = Field(description=_SECRETS)


class PagerDutyEntry(Entry):
    """PagerDuty's webhooks, version 3."""

    kind: Literal["pagerduty"] = Field(description="Which sender it is.")
    secret_files: Secrets = Field(description=_SECRETS)


class CloudWatchEntry(Entry):
    """CloudWatch by a topic of SNS, which AWS signs."""

    kind: Literal["cloudwatch"] = Field(description="Which sender it is.")
    topics: list[Topic] = Field(min_length=1, max_length=50, description="The topics that are listened to.")


class GenericEntry(Entry):
    """Any JSON, signed as Standard Webhooks say, or with a token where the sender cannot sign; read by expressions."""

    kind: Literal["generic"] = Field(description="Which sender it is.")
    secret_files: Secrets | None = Field(None, description=_SECRETS)
    token: Line | None = Field(
        None, description="For a sender that cannot sign: the name of a token of the role source."
    )
    alerts: Script | None = Field(None, description="CEL over `body`: the list of alerts; without it body itself.")
    fingerprint: Script = Field(description="CEL over `item`: text that stays the same while it is the same fault.")
    status: Script = Field(description="CEL over `item`: firing, resolved, or anything else for neither.")
    labels: Script = Field(description="CEL over `item`: a map of texts.")
    starts_at: Script | None = Field(None, description="CEL over `item`: since when; without it, since it came.")
    ends_at: Script | None = Field(None, description="CEL over `item`: until when.")
    annotations: Script | None = Field(None, description="CEL over `item`: a map of texts.")
    link: Script | None = Field(None, description="CEL over `item`: an address for a person.")

    @model_validator(mode="after")
    def _one_proof(self) -> "GenericEntry":
        if (self.secret_files is None) == (self.token is None):
            given = "has no proof of its sender" if self.token is None else "has two proofs of its sender"
            raise refuse(given, "Write `secret_files`, or `token` for a sender that cannot sign.")
        return self


SourceEntry = Annotated[
    AlertmanagerEntry | GrafanaEntry | PagerDutyEntry | CloudWatchEntry | GenericEntry, Discriminator("kind")
]
SOURCE_ENTRIES: dict[str, type[Entry]] = {
    "alertmanager": AlertmanagerEntry,
    "grafana": GrafanaEntry,
    "pagerduty": PagerDutyEntry,
    "cloudwatch": CloudWatchEntry,
    "generic": GenericEntry,
}


class AttemptsEntry(Entry):
    """How often a rule may try one node."""

    most: int = Field(ge=1, le=100, description="Runs.")
    within: SomeTime = Field(description="In this time.")


class RuleEntry(Entry):
    """When, what, where, and how far without a person."""

    name: Name = Field(description="What verdicts and the record call the rule.")
    sources: list[Name] = Field(default=[], description="Whose alerts it is for; without it, those of every source.")
    when: Script = Field(description="CEL over `alert`: true for the alerts that the rule answers.")
    runbook: Name = Field(description="The runbook that is run.")
    node: Script = Field(description="CEL over `alert`: the text that names the node.")
    node_by: NodeBy = Field(default=NodeBy.NAME, strict=False, description="What that text is compared with.")
    params: dict[Word, Given] = Field(default={}, description="Values of the runbook's parameters.")
    waive: list[Name] = Field(default=[], description="Steps whose gate is answered beforehand, by this file.")
    dedup: SomeTime = Field(default=timedelta(hours=1), description="One occasion of a fault is answered once in it.")
    cooldown: Duration = Field(default=timedelta(0), description="After a run has ended its node is left in peace.")
    max_age: SomeTime = Field(default=timedelta(hours=1), description="Alerts older than that start nothing.")
    attempts: AttemptsEntry | None = Field(
        default=None, description="How often the rule may try one node; without it, one that acts 5 times in 24 h."
    )
    dry_run: bool = Field(default=False, description="Only look, and say what would be done.")


class SelectorEntry(Entry):
    """Which nodes, by what they are."""

    pool: Line | None = Field(default=None, description="Nodes of this pool.")
    attributes: dict[Word, Line] = Field(default={}, description="Nodes that have all of these.")


class SweepEntry(Entry):
    """A dry run on a schedule."""

    name: Name = Field(description="What the fleet and the record call the sweep.")
    runbook: Name = Field(description="The runbook whose dry run is played.")
    pool: Line | None = Field(default=None, description="Nodes of this pool; without pool and selector, every node.")
    selector: SelectorEntry | None = Field(default=None, description="Which nodes, in place of `pool`.")
    params: dict[Word, Value] = Field(default={}, description="Values of the runbook's parameters.")
    cron: Line = Field(description="Five fields in UTC: minute, hour, day of month, month, day of week.")
    jitter: Duration = Field(default=timedelta(0), description="Each time is put off by less than this.")
    nodes_at_once: int = Field(default=20, ge=1, le=100, description="Nodes that are looked at together, at most.")
    ends_within: SomeTime = Field(
        default=timedelta(hours=1), description="A node that has not answered by then could not be looked at."
    )


class RulesFile(Entry):
    """Who may deliver alerts, which alert starts which runbook, and what is looked at on a schedule."""

    sources: dict[Name, SourceEntry] = Field(default={}, description="By the name that their webhook's address has.")
    rules: list[RuleEntry] = Field(default=[], max_length=500, description="In order; the first that matches decides.")
    sweeps: list[SweepEntry] = Field(default=[], max_length=100, description="Dry runs on a schedule.")


def rules_json_schema() -> dict[str, object]:
    """Return the JSON Schema of rules.yaml, for editors."""
    schema = clean(RulesFile.model_json_schema(by_alias=True))
    return {"$schema": DIALECT, **schema, "title": "Rules of unstick"}
