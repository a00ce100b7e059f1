"""The words of inventory.yaml. A word that is not here is refused: a misspelt `veiw` must not be ignored."""

import re
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from service.domain.errors import InvalidInput
from service.domain.node import Become, Confine, ExecutorKind, Login, View
from service.domain.public_key import parse_public_key

#: Variables that would change how the envelope itself works, or that it sets.
_RESERVED = re.compile(r"(UNSTICK|PARAM|NODE|LD|BASH)_.*|PATH|ENV|IFS|SHELLOPTS|BASHOPTS|PS4")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What only makes sense where a connection is made.
_SSH_ONLY = ("port", "user", "key_file", "certificate_file", "host_key", "known_hosts_file", "host_ca", "jump", "login")
#: What only makes sense where AWS carries the script.
_SSM_ONLY = ("instance", "region", "profile", "document", "document_hash")
#: The patterns of the API reference (SendCommand): what does not match is refused here, before any call.
INSTANCE = re.compile(r"i-(?:[0-9a-z]{8}|[0-9a-z]{17})|mi-[0-9a-z]{17}")
_DOCUMENT = re.compile(r"[A-Za-z0-9_.:/-]{3,128}")
_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-[0-9]+")


def _as_tuple(value: object) -> object:
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str) else value


def _public_key(text: str) -> str:
    try:
        return parse_public_key(text).line
    except InvalidInput as error:
        raise ValueError(str(error)) from error


def _as_text(value: object) -> object:
    # `rack: 7` is read as a number and meant as a word; true and 1.5 could mean several texts.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _single_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a sign that is not printed stands in it.")
    return text


Word = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_single_line)]
PublicKeys = Annotated[tuple[Annotated[str, AfterValidator(_public_key)], ...], BeforeValidator(_as_tuple)]
TextValue = Annotated[Word, BeforeValidator(_as_text)]


class Words(BaseModel):
    """A mapping of which every word is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ReachWords(Words):
    """How a machine is reached; the words that a node, a controller and a jump host share."""

    address: Word | None = None
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    user: Word = "root"
    key_file: Word | None = None
    certificate_file: Word | None = None
    host_key: PublicKeys = ()
    known_hosts_file: Word | None = None
    host_ca: PublicKeys = ()
    login: Annotated[Login, Field(strict=False)] = Login.ROOT


class JumpWords(ReachWords):
    """A jump host that is no node itself."""

    address: Word


def _kind_of_jump(value: object) -> str:
    return "name" if isinstance(value, str) else "mapping"


Jump = Annotated[Annotated[Word, Tag("name")] | Annotated[JumpWords, Tag("mapping")], Discriminator(_kind_of_jump)]


class EndpointWords(ReachWords):
    """A machine on which scripts run."""

    executor: Annotated[ExecutorKind, Field(strict=False)]
    #: The name of another node, or the jump host itself.
    jump: Jump | None = None
    become: Annotated[Become, Field(strict=False)] = Become.NONE
    view: Annotated[View, Field(strict=False)] = View.MACHINE
    confine: Annotated[Confine, Field(strict=False)] = Confine.TRY
    path: Word | None = None
    #: For SSM `instance` is another word for `address`.
    instance: Word | None = None
    region: Word | None = None
    profile: Word | None = None
    document: Word = "AWS-RunShellScript"
    document_hash: Word | None = None

    @model_validator(mode="after")
    def _only_words_of_its_executor(self) -> "EndpointWords":
        ssh, ssm = self.executor is ExecutorKind.SSH, self.executor is ExecutorKind.SSM
        foreign = (*(() if ssh else _SSH_ONLY), *(("become",) if ssm else _SSM_ONLY))
        given = [word for word in foreign if word in self.model_fields_set]
        if given:
            raise ValueError(f"`{given[0]}` says nothing with `executor: {self.executor}`; remove it.")
        if self.view is View.PRIVATE and self.executor is not ExecutorKind.LOCAL:
            raise ValueError("`view: private` is for `executor: local` only.")
        if self.certificate_file and not self.key_file:
            raise ValueError("`certificate_file` needs `key_file` beside it.")
        return self

    @model_validator(mode="after")
    def _one_word_for_the_instance(self) -> "EndpointWords":
        if self.instance is not None and self.address is not None:
            raise ValueError("`instance` and `address` say the same; keep one.")
        return self

    @field_validator("region")
    @classmethod
    def _of_aws(cls, region: str | None) -> str | None:
        if region is not None and not _REGION.fullmatch(region):
            raise ValueError(f"`{region}` is no region; write it as in `us-east-1`.")
        return region

    @field_validator("document")
    @classmethod
    def _a_document(cls, document: str) -> str:
        if not _DOCUMENT.fullmatch(document):
            raise ValueError(f"`{document}` is no name of an SSM document.")
        return document

    @field_validator("document_hash")
    @classmethod
    def _a_hash(cls, digest: str | None) -> str | None:
        if digest is not None and not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ValueError("it is the SHA-256 that `aws ssm describe-document` shows: 64 digits of 0-9 and a-f.")
        return digest

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is not None and not all(folder.startswith("/") for folder in path.split(":")):
            raise ValueError("every folder in it begins with `/`.")
        return path


class NodeWords(EndpointWords):
    """One node, or a set of nodes."""

    pools: Annotated[tuple[Word, ...], BeforeValidator(_as_tuple)] = ()
    controller: Word | None = None
    attributes: dict[Word, TextValue] = Field(default_factory=dict)


class ControllerWords(EndpointWords):
    """Where steps for a cluster's control plane run."""

    env: dict[Word, TextValue] = Field(default_factory=dict)

    @field_validator("env")
    @classmethod
    def _names_of_variables(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"`{name}` is no name of a variable.")
            if _RESERVED.fullmatch(name):
                raise ValueError(f"`{name}` is set by unstick itself; for PATH there is `path`.")
        return env
