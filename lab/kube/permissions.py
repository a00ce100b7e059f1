"""What a role permits, as rbac.authorization.k8s.io/v1 says it: only what a rule names."""

from collections.abc import Mapping, Sequence
from typing import Any


class Permissions:
    """The rules of a ClusterRole, and which of them were used."""

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Take the rules as the YAML has them."""
        self._rules = rules
        self.used: set[tuple[str, str]] = set()

    def permits(self, verb: str, group: str, resource: str, name: str) -> bool:
        """Tell whether a rule permits a verb (get, list, patch, create) on a resource, `pods/eviction` say."""
        for rule in self._rules:
            names = rule.get("resourceNames", ())
            fits = group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
            if fits and (not names or name in names):
                self.used.add((resource, verb))
                return True
        return False

    def every(self) -> set[tuple[str, str]]:
        """Return every resource with every verb that is permitted."""
        return {(each, verb) for rule in self._rules for each in rule["resources"] for verb in rule["verbs"]}
