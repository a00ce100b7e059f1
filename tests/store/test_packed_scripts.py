"""A plan keeps each script byte for byte, though what scripts share is kept once."""

import pytest

from service.domain.plan import PlannedScript
from service.domain.script import ScriptKind, sha256
from service.store.rows import ScriptPacker, unpack_scripts

PRELUDE = "helper() {\n  echo 'ü'\n}\n"
LONG = "# The beginning is longer than what is searched for, and may come twice.\n" + PRELUDE


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"set -e\n{PRELUDE}helper\n", id="as it is rendered"),
        pytest.param("helper\n", id="without the prelude"),
        pytest.param(f"{PRELUDE}{PRELUDE}", id="twice, and nothing else"),
        pytest.param(PRELUDE.rstrip("\n"), id="nothing else, without a line end"),
        pytest.param(f"{LONG[:70]}\n{LONG}x\n{LONG}", id="behind its own beginning"),
        pytest.param("", id="empty"),
    ],
)
@pytest.mark.parametrize("prelude", [PRELUDE, LONG, "", "\n"])
def test_a_script_comes_back_byte_for_byte(text: str, prelude: str) -> None:
    scripts = tuple(PlannedScript("gpu-01", "free", kind, "node", text, sha256(text)) for kind in ScriptKind)

    packer = ScriptPacker(prelude)

    packed = [packer.pack(scripts) for _ in range(2)]

    assert [unpack_scripts(one) for one in packed] == [scripts, scripts]


def test_what_scripts_share_is_kept_once() -> None:
    long = "".join(f"# {number} {sha256(str(number))}\n" for number in range(200))
    scripts = [PlannedScript("gpu-01", "free", kind, "node", f"{long}helper\n", sha256(long)) for kind in ScriptKind]

    packed = ScriptPacker(long).pack(scripts)

    assert len(packed) < len(ScriptPacker(long).pack(scripts[:1])) * 1.1
