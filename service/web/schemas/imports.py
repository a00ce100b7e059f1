"""The journal of a run by hand, as it is sent."""

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from service.domain.by_hand import MOST_CHARACTERS
from service.web.schemas.common import Given, Reason

_EXAMPLE = """{"seq":1,"at":"2026-11-29T03:00:00.000000Z","boot":"...","event":"begun","by":"ann","hash":"..."}"""


class JournalBody(Given):
    """A journal that an exported script has written, byte for byte."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"journal": _EXAMPLE, "reason": "The database was full."}]}
    )

    journal: Annotated[str, StringConstraints(max_length=MOST_CHARACTERS)] = Field(
        description="The whole file, lines of JSON that are bound by hashes."
    )
    reason: Reason = Field(default="", description="Why it was played by hand, for whoever reads the record.")
