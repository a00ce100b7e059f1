"""Break the program on purpose, one place at a time, and see that a test notices.

`python -m tools.mutants [WORD]` plays the mutants whose name has the word; each is one or a few exact replacements in a
copy of the tracked files. A replacement that does not match exactly once is an error, and so is a test that fails
without any mutant: then nothing would be proven.
"""

from tools.mutants.by_hand import BY_HAND
from tools.mutants.doors import DOORS
from tools.mutants.engine import ENGINE
from tools.mutants.gates import GATES
from tools.mutants.looking import LOOKING
from tools.mutants.monitors import MONITORS
from tools.mutants.persons import PERSONS
from tools.mutants.rails import ALERTS
from tools.mutants.signing_in import SIGNING_IN
from tools.mutants.telling import TELLING

MUTANTS = (*ENGINE, *GATES, *PERSONS, *SIGNING_IN, *DOORS, *MONITORS, *ALERTS, *TELLING, *LOOKING, *BY_HAND)
