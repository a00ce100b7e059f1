"""The rules as a file: rules.yaml, read strictly, judged against the runbooks, read again when it changes."""

from pathlib import Path

from service.app.finding import Finding, Severity
from service.app.kept_file import KeptFile
from service.app.ports import Runbooks
from service.app.runbook_yaml import Bounds, decode, read_document
from service.app.secret_line import learn_lines
from service.domain.errors import ConfigInvalid
from service.domain.rule import RuleSet
from service.triggers.rules_reader import ExaminedRules, examine_rules

#: A few hundred rules.
OF_RULES = Bounds(
    1024 * 1024,
    50_000,
    "Let one rule answer alerts of several names, as in `alert.labels.alertname in [...]`.",
    if_empty="Write `rules: []`, or remove the file.",
)


class FileRules(KeptFile[RuleSet]):
    """Sources and rules from one file; fulfils the port RuleSource.

    A file that became wrong does not take the rules away: the last good ones stay, and `problem` says why; so it does
    when the runbooks have changed under a good file. A file that was never there has no sources and no rules.
    """

    def __init__(self, path: Path, runbooks: Runbooks) -> None:
        """Take the path of rules.yaml and the runbooks that it may name; nothing is read yet."""
        super().__init__(
            path,
            lambda path: load_rules(path, runbooks),
            word="rules",
            if_absent=RuleSet(),
            surroundings=lambda: (tuple(runbooks.all()), tuple(runbooks.invalid())),
        )


def load_rules(path: Path, runbooks: Runbooks) -> RuleSet:
    """Read a file; ConfigInvalid names every fault with its line, OSError when it cannot be read."""
    examined = examine_file(path, runbooks)
    if examined.rules is not None:
        for source in examined.rules.sources.values():
            learn_lines(*source.secret_files)
        return examined.rules
    errors = [finding for finding in examined.findings if finding.severity is Severity.ERROR]
    raise ConfigInvalid("\n".join(map(str, errors)))


def lint_rules(path: Path, runbooks: Runbooks) -> tuple[Finding, ...]:
    """Return everything that is to be said of a file, by line; one that cannot be read is a finding too."""
    try:
        return examine_file(path, runbooks).findings
    except OSError as error:
        reason = f"The file cannot be read: {error.strerror}."
        return (Finding(str(path), 1, reason, "Add it, or mend its rights."),)


def examine_file(path: Path, runbooks: Runbooks) -> ExaminedRules:
    """Return what a file says and what is to be said of it; OSError when it cannot be read."""
    file = str(path)
    with path.open("rb") as stream:
        data = stream.read(OF_RULES.size + 1)
    text = decode(data, file, bounds=OF_RULES)
    if isinstance(text, Finding):
        return ExaminedRules(None, (text,))
    document = read_document(text, file, bounds=OF_RULES)
    if isinstance(document, Finding):
        return ExaminedRules(None, (document,))
    return examine_rules(document, file, folder=path.parent, runbooks=runbooks)
