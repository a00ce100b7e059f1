"""How often a proof repeats what it proves: as the issue asks, or fewer for a quick trial."""

import os


def count(name: str, default: int) -> int:
    """Return `UNSTICK_PROOF_<NAME>`, else the default."""
    return int(os.environ.get(f"UNSTICK_PROOF_{name.upper()}", default))
