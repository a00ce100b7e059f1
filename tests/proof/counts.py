"""How often a proof repeats what it proves: as is promised, or fewer for a quick trial."""

import os


def count(name: str, default: int) -> int:
    """Return `UNSTICK_PROOF_<NAME>`, else the default."""
    return int(os.environ.get(f"UNSTICK_PROOF_{name.upper()}", default))


def spread(every: int, wanted: int) -> list[int]:
    """Return so many boundaries, evenly spread from the first to the last."""
    if wanted >= every:
        return list(range(1, every + 1))
    return sorted({1 + round(number * (every - 1) / max(1, wanted - 1)) for number in range(wanted)})
