"""Field selectors, label selectors and pages of a list."""

import re

from lab.kube.objects import Object


def by_fields(items: list[Object], selector: str) -> list[Object]:
    """Return the items that a field selector names, such as `spec.nodeName=gpu-01,status.phase!=Failed`."""
    for term in filter(None, selector.split(",")):
        found = re.fullmatch(r"([A-Za-z.]+)(==|=|!=)(.*)", term)
        if found is None:
            raise ValueError(f"unable to parse field selector: {term}")
        path, sign, wanted = found.groups()
        items = [item for item in items if (_field(item, path) == wanted) is (sign != "!=")]
    return items


def by_labels(items: list[Object], selector: str) -> list[Object]:
    """Return the items that a label selector of equalities and bare names names."""
    for term in filter(None, selector.split(",")):
        name, sign, wanted = re.fullmatch(r"([^!=]+)(==|=|!=)?(.*)", term.strip()).groups()  # type: ignore[union-attr]
        labels = [(item, item["metadata"].get("labels", {}).get(name)) for item in items]
        items = [item for item, value in labels if _fits(value, sign, wanted)]
    return items


def page(items: list[Object], limit: int, begin: str) -> tuple[list[Object], str]:
    """Return one page of a list and the word by which the next one is asked for."""
    first = int(begin or 0)
    last = first + limit if limit else len(items)
    return items[first:last], str(last) if last < len(items) else ""


def _field(item: Object, path: str) -> str:
    value: object = item
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def _fits(value: str | None, sign: str | None, wanted: str) -> bool:
    if sign is None:
        return value is not None
    return (value == wanted) is (sign != "!=")
