"""Play the mutants whose name has a word: `python -m tools.mutants [WORD]`."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.mutants import MUTANTS
from tools.mutants.playing import Copy, play


def main(arguments: Sequence[str]) -> int:
    """Play them, print which test caught each, and return 1 when one survived."""
    word = arguments[0] if arguments else ""
    chosen = [mutant for mutant in MUTANTS if word in mutant.name]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder).resolve())
        for mutant in chosen:
            caught = play(copy, mutant)
            survivors += caught is None
            print(f"{mutant.name}: {'caught by ' + caught if caught else 'SURVIVED'}", flush=True)
        copy.close()
    print(f"{len(chosen)} mutants, {survivors} survived")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
