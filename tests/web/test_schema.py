"""Whatever fits the document is answered as the document says."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from service.domain.person import Role
from tests.web.api import Api

#: Streams of runs do not end by themselves; they have tests of their own.
LEFT_OUT = {"/api/v1/runs/{run_id}/events"}


def test_every_answer_is_one_that_is_declared(api: Api) -> None:
    document: dict[str, Any] = api.app.openapi()
    document = {**document, "paths": {path: one for path, one in document["paths"].items() if path not in LEFT_OUT}}
    schema = schemathesis.openapi.from_dict(document)

    @settings(max_examples=40, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=schema.as_strategy())
    def check(case: Any) -> None:
        more = {} if type(case.body).__name__ == "NotSet" else {"json": case.body}
        answer = api.ask(case.method, case.formatted_path, role=Role.OPERATOR, params=case.query or {}, **more)

        declared = document["paths"][case.path][case.method.lower()]["responses"]
        assert str(answer.status_code) in declared, (case.method, case.path, answer.text)

    check()
