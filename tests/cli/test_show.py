"""What `unstick show` prints, to the letter: parts are one empty line apart, and none follows the last."""

from tests.cli.installation import Someone


def test_a_run_at_a_gate_is_shown_with_what_it_would_act_on_and_what_may_be_typed(ann: Someone, node: str) -> None:
    run_id = ann.request("confirm", node)
    run = ann.run(run_id)
    (gate,) = run["gates"]

    done = ann("show", run_id)

    who = "a confirm gate: any operator or approver answers it, the requester too"
    shown = f"""\
run {run_id}: confirm is waiting
requested by ann at {run["created_at"]}
plan digest {run["digest"]}

NODE  STATE    VERDICT  REASON
{node}   waiting  -        The gate of step touch is open.

NODE  STEP   OUTCOME  SCRIPTS  WELL NOW  REASON
{node}   touch  -        check 0  -         -

GATE                                  NODE  STEP   KIND     STATE  ANSWERED BY  EXPIRES AT
{gate["id"]}  {node}   touch  confirm  open   -            {gate["expires_at"]}

{node} touch would act on: thing-of-{node}

  unstick approve {gate["id"]}  # look at step touch on {node}, and agree; {who}
  unstick deny {gate["id"]} --reason '...'  # or refuse
"""
    assert done.stdout == shown


def test_a_run_that_ended_well_is_shown_with_what_its_scripts_said(ann: Someone, node: str) -> None:
    run_id = ann.request("free", node)
    run = ann.run(run_id)

    done = ann("show", run_id, "--output")

    shown = f"""\
run {run_id}: free is succeeded
requested by ann at {run["created_at"]}
plan digest {run["digest"]}

NODE  STATE      VERDICT  REASON
{node}   succeeded  cured    -

NODE  STEP   OUTCOME  SCRIPTS                   WELL NOW  REASON
{node}   touch  changed  check 0, run 0, verify 0  -         -

-- {node} touch check (0)
   looked at {node}
-- {node} touch run (0)
   acted, \\x1b[31mred
-- {node} touch verify (0)
"""
    assert done.stdout == shown
