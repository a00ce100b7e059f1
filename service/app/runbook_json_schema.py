"""The JSON Schema of a runbook file, for editors (`unstick schema`).

It knows what one value may be; `unstick lint` also knows what values must say together.
"""

from typing import Any

from service.app.runbook_schema import RunbookFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, object]:
    """Return the schema as JSON-like values."""
    schema = clean(RunbookFile.model_json_schema(by_alias=True))
    goals = schema["properties"]["escalate_to"]
    schema["properties"]["escalate_to"] = {
        "description": goals["description"],
        "anyOf": [{"type": "string"}, {"type": "array", "items": goals["items"]}],
    }
    return {"$schema": DIALECT, **schema, "title": "Runbook of unstick"}


def clean(value: Any) -> Any:
    """Take away what a file cannot say: an absent key is not null, and titles repeat the keys."""
    if isinstance(value, list):
        return [clean(item) for item in value]
    if not isinstance(value, dict):
        return value
    cleaned = {key: clean(item) for key, item in value.items() if not _superfluous(key, item)}
    options = cleaned.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        kept = [option for option in options if option != {"type": "null"}]
        del cleaned["anyOf"]
        cleaned = {**(kept[0] if len(kept) == 1 else {"anyOf": kept}), **cleaned}
    return cleaned


def _superfluous(key: str, item: object) -> bool:
    if key == "default":
        # pydantic writes durations as ISO 8601, which a file does not.
        return item in (None, [], {}, "") or (isinstance(item, str) and item.startswith("PT"))
    return key == "title" and isinstance(item, str)
