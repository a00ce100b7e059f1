"""Writes what unstick is made of, as CycloneDX 1.6 in JSON: every package of `requirements.lock`, with its hashes.

The lock is the whole truth of what is installed, so it is read and nothing else. A component has one hash for each file
under which its version is published, of which pip takes the one that fits the machine.
https://cyclonedx.org/docs/1.6/json/ names the members.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PINNED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def document(lock: str, *, version: str) -> dict[str, Any]:
    """Return the document of a lock's text for this version of unstick; the same lock gives the same document."""
    own = {"type": "application", "name": "unstick", "version": version, "bom-ref": f"unstick@{version}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": list(_components(lock)),
    }


def _components(lock: str) -> Iterator[dict[str, Any]]:
    for entry in re.split(r"\n(?=[A-Za-z0-9])", lock):
        pinned = _PINNED.match(entry)
        if pinned is None:
            continue
        # As package URLs write them: https://github.com/package-url/purl-spec, type pypi.
        url = f"pkg:pypi/{re.sub(r'[-_.]+', '-', pinned[1]).lower()}@{pinned[2]}"
        hashes = [{"alg": "SHA-256", "content": digest} for digest in _HASH.findall(entry)]
        named = {"type": "library", "name": pinned[1], "version": pinned[2], "purl": url, "bom-ref": url}
        yield {**named, "hashes": hashes}


def main() -> None:
    """Write the document where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="the file to write")
    output: Path = parser.parse_args().output
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    output.parent.mkdir(parents=True, exist_ok=True)
    made = document((ROOT / "requirements.lock").read_text(), version=version)
    output.write_text(json.dumps(made, indent=2) + "\n")
    print(f"{output}: {len(made['components'])} packages")


if __name__ == "__main__":
    main()
