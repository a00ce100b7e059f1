"""Patches: strategic merge as far as nodes and pods need it, and JSON merge (RFC 7386)."""

from typing import Any

from lab.kube.objects import Object

#: Lists that a strategic patch merges, by the key that tells their items apart; every other list is replaced. The
#: source is `patchMergeKey` in k8s.io/api/core/v1/types.go.
MERGE_KEYS = {"conditions": "type", "addresses": "type", "ownerReferences": "uid", "containers": "name"}
STRATEGIC, JSON_MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"


def patched(kind: str, document: Object, patch: Object) -> Object:
    """Return the document with a patch of this content type; ValueError for another one."""
    if kind not in (STRATEGIC, JSON_MERGE):
        raise ValueError(f"the stand-in knows no patch of type {kind}")
    return _mapping(document, patch, strategic=kind == STRATEGIC)


def _mapping(document: Object, patch: Object, *, strategic: bool) -> Object:
    if strategic and patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(document)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            own = merged.get(key)
            merged[key] = _mapping(own if isinstance(own, dict) else {}, value, strategic=strategic)
        elif isinstance(value, list) and strategic and key in MERGE_KEYS:
            merged[key] = _items(merged.get(key, []), value, MERGE_KEYS[key])
        else:
            merged[key] = value
    return merged


def _items(items: list[Any], patches: list[Any], key: str) -> list[Any]:
    merged = {item[key]: item for item in items}
    for patch in patches:
        if patch.get("$patch") == "delete":
            merged.pop(patch[key], None)
        else:
            merged[patch[key]] = _mapping(merged.get(patch[key], {}), patch, strategic=True)
    return list(merged.values())
