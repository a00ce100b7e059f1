"""Gates and answers to them."""

from datetime import datetime
from typing import Literal, Self

from pydantic import ConfigDict, Field

from service.app.show_run import GateView
from service.domain.errors import BrokenRule
from service.domain.run import Gate, GateState
from service.domain.runbook import ApprovalKind
from service.web.schemas.common import DIGEST, GATE_ID, TARGET, Digest, Given, Id, MustReason, Reason, Shown
from service.web.schemas.problem import Problem
from service.web.schemas.survey import SurveyDetail


class GateDetail(Shown):
    """A stop before `run`, and its answer."""

    id: str
    run_id: str
    node: str
    step: str
    kind: ApprovalKind = Field(description="Who must agree.")
    state: GateState
    digest: str = Field(description="Of exactly what would run: plan, node, step, boot and targets.")
    boot_id: str
    targets: list[str] = Field(description="What `run` would act on, as the check found it.")
    opened_at: datetime
    expires_at: datetime
    check_attempt_id: str = Field(description="The attempt whose output the answer rests on.")
    decided_by: str | None
    decided_at: datetime | None
    reason: str
    occupants: str = Field(description="What ran on the node when it was opened, on one line; empty: nobody looked.")
    over: list[str] = Field(description="Why a person is asked though a rule had waived it; empty: for no limit.")

    @classmethod
    def of(cls, gate: Gate) -> Self:
        """Return the gate as it is shown."""
        return cls.model_validate(gate)


class Approval(GateDetail):
    """A gate as the asking person sees it."""

    runbook: str
    requested_by: str
    run_reason: str = Field(description="Why the run was requested.")
    may_answer: bool = Field(description="Whether you may answer it now.")
    may_not_because: str = Field(description="Why you may not; empty when you may.")

    @classmethod
    def seen(cls, view: GateView) -> Self:
        """Return the gate with what its reader may do."""
        gate, run = view.gate, view.run
        closed = "" if gate.state is GateState.OPEN else f"The gate is {gate.state}."
        why = closed or view.may_not
        more = {"runbook": run.runbook, "requested_by": run.requested_by, "run_reason": run.reason}
        answer = {"may_answer": not why, "may_not_because": why}
        return cls.model_validate(GateDetail.of(gate).model_dump() | more | answer)


class CheckOutput(Shown):
    """What the check of a gate has said: what the person answers to."""

    stdout: str = Field(description="At most 64 KiB; control characters are escaped.", examples=[f"{TARGET}\n"])
    stderr: str = Field(description="At most 64 KiB; control characters are escaped.")
    truncated: bool = Field(
        description="Whether it said more: what is kept of it is under `/attempts/{check_attempt_id}/output`."
    )


class ApprovalInFull(Approval):
    """A gate with all that an answer rests on: what the check has said, and what would be acted on."""

    check_output: CheckOutput
    needs_reason: bool = Field(description="Whether who approves must say why.")
    may_override: bool = Field(description="Whether you may override it now: break glass, and everybody is told.")
    unconfined: str = Field(
        description="Why the check was not kept from touching the node; empty: nothing is known against it.",
        examples=["its mounts are not read-only (Function not implemented)"],
    )
    survey: SurveyDetail | None = Field(
        description="What ran on the node when the gate was opened; null: nobody looked. No digest binds it."
    )

    @classmethod
    def seen(cls, view: GateView) -> Self:
        """Return the gate with what its check has said; BrokenRule when that was not read."""
        if view.said is None:
            raise BrokenRule(f"The gate {view.gate.id} was read without what its check has said.")
        said = CheckOutput.model_validate(view.said)
        survey = SurveyDetail.of(view.gate.survey) if view.gate.survey is not None else None
        may_override = view.may_override and view.gate.state is GateState.OPEN
        looked = {"check_output": said, "survey": survey, "unconfined": view.unconfined or ""}
        more = {**looked, "needs_reason": view.needs_reason, "may_override": may_override}
        return cls.model_validate(Approval.seen(view).model_dump() | more)


class Approve(Given):
    """Agree to exactly what was shown."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"digest": DIGEST, "reason": "The server is gone, nobody can lose anything."}]}
    )

    digest: Digest = Field(description="The gate's digest, as you saw it.")
    reason: Reason = Field(default="", description="Must be given where the step asks for it (`needs_reason`).")


class Deny(Given):
    """Refuse what a gate asks for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"digest": DIGEST, "reason": "The upload of tonight still runs there."}]}
    )

    digest: Digest = Field(description="The gate's digest, as you saw it.")
    reason: MustReason = Field(description="Why, for the next person who looks.")


class OverrideGate(Given):
    """Let a gate through that nobody has approved."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"digest": DIGEST, "reason": "The cluster is down, and nobody else answers."}]}
    )

    digest: Digest = Field(description="The gate's digest, as you saw it.")
    reason: MustReason = Field(description="Why nobody could be asked; everybody is told.")


class OneDecision(Given):
    """The answer to one of several gates."""

    id: Id
    digest: Digest
    answer: Literal["approve", "deny"]
    reason: Reason = Field(default="", description="Must be given when denied, and where the step asks for it.")


class Decisions(Given):
    """Answers to several gates; each is done, or refused, by itself."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"decisions": [{"id": GATE_ID, "digest": DIGEST, "answer": "approve"}]}]}
    )

    decisions: list[OneDecision] = Field(min_length=1, max_length=200)


class Decided(Shown):
    """What became of one answer: the gate, or the problem."""

    id: str
    status: int = Field(description="The status that this answer would have had alone.")
    gate: GateDetail | None = None
    problem: Problem | None = None


class AllDecided(Shown):
    """What became of each answer, in the order of the request."""

    items: list[Decided]
