"""A plan keeps each script byte for byte, though what scripts share is kept once."""

import pytest

from service.domain.plan import PlannedScript
from service.domain.script import ScriptKind, sha256
from service.store.rows import pack_scripts, unpack_scripts

PRELUDE = "helper() {\n  echo 'ü'\n}\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"set -e\n{PRELUDE}helper\n", id="as it is rendered"),
        pytest.param("helper\n", id="without the prelude"),
        pytest.param(f"{PRELUDE}{PRELUDE}", id="twice, and nothing else"),
        pytest.param(PRELUDE.rstrip("\n"), id="nothing else, without a line end"),
    ],
)
@pytest.mark.parametrize("prelude", [PRELUDE, "", "\n"])
def test_a_script_comes_back_byte_for_byte(text: str, prelude: str) -> None:
    scripts = tuple(PlannedScript("gpu-01", "free", kind, "node", text, sha256(text)) for kind in ScriptKind)

    assert unpack_scripts(pack_scripts(scripts, prelude=prelude)) == scripts
