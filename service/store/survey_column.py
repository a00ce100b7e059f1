"""The type of a column with a survey: JSON in the words of its values."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from service.domain.survey import Kind, Occupant, Part, Sight, Survey
from service.store.columns import time_text


class Surveyed(TypeDecorator[Survey]):
    """What ran on a node at one moment, as JSON."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Survey | None, dialect: Dialect) -> str | None:
        """Return JSON in ASCII, the same for the same content."""
        if value is None:
            return None
        parts = {kind.value: _written(part) for kind, part in value.parts.items()}
        said = {"taken_at": time_text(value.taken_at), "over": list(value.over), "parts": parts}
        return json.dumps(said, sort_keys=True, separators=(",", ":"))

    def process_result_value(self, value: Any, dialect: Dialect) -> Survey | None:
        """Return the survey; a kind that was not known when it was written is left out."""
        if value is None:
            return None
        said = json.loads(value)
        parts = {kind: _read(said["parts"][kind.value]) for kind in Kind if kind.value in said["parts"]}
        return Survey(datetime.fromisoformat(said["taken_at"]), parts, tuple(said["over"]))


def _written(part: Part) -> dict[str, Any]:
    found = [[one.name, dict(one.facts), one.apart] for one in part.found]
    return {"sight": part.sight.value, "found": found, "count": part.count, "apart": part.apart, "why": part.why}


def _read(said: dict[str, Any]) -> Part:
    found = tuple(Occupant(name, facts, apart) for name, facts, apart in said["found"])
    return Part(Sight(said["sight"]), found, said["count"], said["apart"], said["why"])
