"""The paths of the API: which resource a request means, and what discovery tells of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from lab.kube.objects import Object

#: Kind and apiVersion of each resource.
KINDS = {
    "nodes": ("Node", "v1"),
    "pods": ("Pod", "v1"),
    "namespaces": ("Namespace", "v1"),
    "daemonsets": ("DaemonSet", "apps/v1"),
    "poddisruptionbudgets": ("PodDisruptionBudget", "policy/v1"),
}
_SHORT = {"nodes": "no", "pods": "po", "namespaces": "ns", "daemonsets": "ds", "poddisruptionbudgets": "pdb"}
_NAMESPACED = frozenset({"pods", "daemonsets", "poddisruptionbudgets"})
_PATH = re.compile(r"(?:/api|/apis/([^/]+))/v1(?:/namespaces/([^/]+)(?=/))?/([a-z]+)(?:/([^/]+)(?:/([a-z]+))?)?")
_VERSION = {"major": "1", "minor": "31", "gitVersion": "v1.31.0", "gitCommit": "lab", "gitTreeState": "clean"}


@dataclass(frozen=True)
class Asked:
    """What one request asks for."""

    method: str
    path: str
    group: str
    namespace: str
    resource: str
    name: str
    sub: str
    query: Mapping[str, str]
    content_type: str
    accept: str

    @classmethod
    def of(cls, method: str, path: str, *, query: Mapping[str, str], content_type: str, accept: str) -> Self:
        """Read the path; a resource that is none stays empty."""
        found = _PATH.fullmatch(path)
        group, namespace, resource, name, sub = (part or "" for part in found.groups()) if found else ("",) * 5
        return cls(method, path, group, namespace, resource, name, sub, query, content_type, accept)

    @property
    def api_verb(self) -> str | None:
        """Give the verb as a role names it, or None for a method that is not known."""
        match self.method:
            case "GET":
                return "get" if self.name else "list"
            case "PATCH" | "POST" | "PUT" | "DELETE":
                return {"PATCH": "patch", "POST": "create", "PUT": "update", "DELETE": "delete"}[self.method]
            case _:
                return None


def discovery(path: str) -> Object | None:
    """Return what discovery tells at a path, or None where it tells nothing."""
    match path:
        case "/version":
            return _VERSION | {
                "buildDate": "2026-01-01T00:00:00Z",
                "goVersion": "go",
                "compiler": "gc",
                "platform": "lab",
            }
        case "/api":
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case "/apis":
            groups = [_group(name) for name in ("apps", "policy")]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case "/api/v1":
            eviction = {"name": "pods/eviction", "group": "policy", "version": "v1", "kind": "Eviction"}
            return _resources("v1", [eviction | {"singularName": "", "namespaced": True, "verbs": ["create"]}])
        case "/apis/apps/v1" | "/apis/policy/v1":
            return _resources(path.removeprefix("/apis/"), [])
        case _:
            return None


def _group(name: str) -> Object:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resources(group_version: str, more: list[Object]) -> Object:
    verbs = ["get", "list", "patch", "delete", "create"]
    found = [
        {"name": name, "singularName": kind.lower(), "namespaced": name in _NAMESPACED, "kind": kind, "verbs": verbs}
        | {"shortNames": [_SHORT[name]]}
        for name, (kind, version) in KINDS.items()
        if version == group_version
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found + more}
