"""Documents: what they say, which versions there are, and their hashes."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lab.ssm.errors import Refusal

LARGEST = 64 * 1024
SHELL = "aws:runShellScript"
OURS = "Self"
RESERVED = ("aws", "amazon", "amzn")  # prefixes of names that only AWS may use
# The parameters and limits of the real document, from its description at AWS.
RUN_SHELL_SCRIPT: dict[str, Any] = {
    "schemaVersion": "1.2",
    "description": "Run a shell script or specify the commands to run.",
    "parameters": {
        "commands": {"type": "StringList", "description": "The shell script or commands.", "minItems": 1},
        "workingDirectory": {"type": "String", "default": "", "description": "Where to run.", "maxChars": 4096},
        "executionTimeout": {
            "type": "String",
            "default": "3600",
            "description": "Seconds until the script is ended, 172800 at most.",
            "allowedPattern": "([1-9][0-9]{0,4})|(1[0-6][0-9]{4})|(17[0-1][0-9]{4})|(172[0-7][0-9]{2})|(172800)",
        },
    },
    "runtimeConfig": {
        SHELL: {
            "properties": [
                {
                    "id": "0.aws:runShellScript",
                    "runCommand": "{{ commands }}",
                    "workingDirectory": "{{ workingDirectory }}",
                    "timeoutSeconds": "{{ executionTimeout }}",
                }
            ]
        }
    },
}


@dataclass(frozen=True)
class Step:
    """One plugin call of a document; `name` is what PluginName asks for."""

    name: str
    inputs: Mapping[str, Any]
    precondition: Mapping[str, Any] = field(default_factory=dict)
    on_failure: str = ""


@dataclass(frozen=True)
class Version:
    """One version of a document's text, read."""

    number: int
    content: str
    format: str
    created: float
    schema: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    steps: tuple[Step, ...]

    def hash(self, kind: str = "Sha256") -> str:
        """Give the hash of the text, as hexadecimal digits."""
        name = "sha1" if kind == "Sha1" else "sha256"
        return hashlib.new(name, self.content.encode(), usedforsecurity=False).hexdigest()


@dataclass
class Document:
    """All versions of one document; the first is number 1."""

    name: str
    owner: str = OURS
    versions: list[Version] = field(default_factory=list)
    default: int = 1
    target_type: str | None = None

    def version(self, wanted: str | None) -> Version:
        """Give a version by `$DEFAULT`, `$LATEST` or number."""
        if wanted in (None, "$DEFAULT"):
            return self.versions[self.default - 1]
        if wanted == "$LATEST":
            return self.versions[-1]
        number = int(str(wanted))
        if number > len(self.versions):
            raise Refusal("InvalidDocumentVersion", f"The document version {wanted} is not valid.")
        return self.versions[number - 1]


class Documents:
    """The documents of the account, and those of AWS that matter here."""

    def __init__(self, now: float) -> None:
        """Begin with AWS-RunShellScript."""
        self._by_name: dict[str, Document] = {}
        standard = Document("AWS-RunShellScript", owner="Amazon")
        standard.versions.append(read(json.dumps(RUN_SHELL_SCRIPT), "JSON", number=1, now=now))
        self._by_name[standard.name] = standard

    def find(self, name: str) -> Document:
        """Give a document by its name or its ARN."""
        document = self._by_name.get(name.rpartition("/")[2])
        if document is None:
            raise Refusal("InvalidDocument", f"Document with name {name} does not exist.")
        return document

    def create(self, name: str, content: str, *, form: str = "JSON", now: float = 0.0) -> Document:
        """Add a document of the account with its first version."""
        if name.lower().startswith(RESERVED):
            raise Refusal("ValidationException", f"Document name {name} begins with a reserved prefix.")
        if name in self._by_name:
            raise Refusal("DocumentAlreadyExists", "The specified document already exists.")
        document = Document(name, versions=[read(content, form, number=1, now=now)])
        self._by_name[name] = document
        return document

    def update(self, name: str, content: str, *, make_default: bool = True, now: float = 0.0) -> Version:
        """Add a version, as somebody else with the right to do so would."""
        document = self.find(name)
        version = read(content, document.versions[-1].format, number=len(document.versions) + 1, now=now)
        document.versions.append(version)
        document.default = version.number if make_default else document.default
        return version


def read(content: str, form: str, *, number: int, now: float) -> Version:
    """Read a document's text; only schemas and plugins that run shell scripts are known here."""
    if len(content.encode()) > LARGEST:
        raise Refusal("MaxDocumentSizeExceeded", "The size limit of a document is 64 KB.")
    try:
        tree = yaml.safe_load(content) if form == "YAML" else json.loads(content)
    except (yaml.YAMLError, ValueError) as unreadable:
        raise _bad(f"it is no {form}: {unreadable}") from unreadable
    if not isinstance(tree, dict):
        raise _bad("it is no object")
    schema = str(tree.get("schemaVersion"))
    if schema not in ("1.2", "2.0", "2.2"):
        raise Refusal("InvalidDocumentSchemaVersion", f"The document schema version {schema} is not supported.")
    parameters = tree.get("parameters") or {}
    for name, rule in parameters.items():
        if not re.fullmatch("[a-zA-Z0-9]+", name) or rule.get("type") not in ("String", "StringList"):
            raise _bad(f"parameter {name} has a name or a type that is not valid")
    steps = _old_steps(tree) if schema == "1.2" else _new_steps(tree)
    return Version(number, content, form, now, schema, str(tree.get("description") or ""), parameters, steps)


def _old_steps(tree: dict[str, Any]) -> tuple[Step, ...]:
    """Read runtimeConfig; the plugin's name is the step's."""
    plugins = tree.get("runtimeConfig") or {}
    steps = []
    for plugin, config in plugins.items():
        properties = config.get("properties") if isinstance(config, dict) else None
        if plugin != SHELL or not isinstance(properties, list) or len(properties) != 1:
            raise _bad(f"{plugin} is not known here, or has not exactly one set of properties")
        steps.append(Step(plugin, properties[0]))
    return _some(steps)


def _new_steps(tree: dict[str, Any]) -> tuple[Step, ...]:
    """Read mainSteps."""
    steps = []
    for each in tree.get("mainSteps") or []:
        if each.get("action") != SHELL or not re.fullmatch("[a-zA-Z0-9]+", str(each.get("name"))):
            raise _bad(f"a step's action is not {SHELL}, or its name is not valid")
        inputs = each.get("inputs") or {}
        steps.append(Step(each["name"], inputs, each.get("precondition") or {}, str(inputs.get("onFailure") or "")))
    if len({step.name for step in steps}) != len(steps):
        raise _bad("two steps have one name")
    return _some(steps)


def _some(steps: list[Step]) -> tuple[Step, ...]:
    if not steps:
        raise _bad("it has no steps")
    return tuple(steps)


def _bad(why: str) -> Refusal:
    return Refusal("InvalidDocumentContent", f"The content for the document is not valid: {why}")
