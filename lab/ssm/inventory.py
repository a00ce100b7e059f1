"""DescribeInstanceInformation, DescribeDocument, GetDocument and CreateDocument."""

from typing import Any

from lab.ssm.documents import Document, Version
from lab.ssm.errors import Refusal
from lab.ssm.instance import Instance
from lab.ssm.pages import page
from lab.ssm.state import State

ABSENT = frozenset({"Stopped", "Stopping", "Terminated"})
PLATFORM_NAMES = {"Linux": ("Debian GNU/Linux", "12"), "Windows": ("Microsoft Windows Server 2022", "10.0.20348")}
PAGE = 10


def describe_instance_information(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """List the managed instances; stopped and terminated ones are left out."""
    old, new = request.get("InstanceInformationFilterList") or [], request.get("Filters") or []
    if old and new:
        raise Refusal("ValidationException", "InstanceInformationFilterList and Filters can't both be given.")
    wanted = [(each["key"], each["valueSet"]) for each in old] + [(each["Key"], each["Values"]) for each in new]
    if len(wanted) > 1 and any(key.startswith("tag") for key, _ in wanted):
        raise Refusal("InvalidFilterKey", "A tag filter can't be combined with other filters.")
    rows = []
    for instance in sorted(state.instances.values(), key=lambda each: each.id):
        row = _row(state, instance)
        if instance.state not in ABSENT and all(_fits(instance, row, key, values) for key, values in wanted):
            rows.append(row)
    chosen, token = page(state, request, rows, key=lambda row: str(row["InstanceId"]), default=PAGE)
    return {"InstanceInformationList": chosen, **token}


def describe_document(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """Describe a document's version, with its hash."""
    document = state.documents.find(request["Name"])
    return {"Document": _description(document, document.version(request.get("DocumentVersion")), state)}


def get_document(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """Give a document's text."""
    document = state.documents.find(request["Name"])
    version = document.version(request.get("DocumentVersion"))
    if request.get("DocumentFormat", version.format) != version.format:
        raise Refusal("ValidationException", "The stand-in does not translate between JSON and YAML.")
    return {
        "Name": document.name,
        "CreatedDate": state.shown(version.created),
        "DocumentVersion": str(version.number),
        "Status": "Active",
        "Content": version.content,
        "DocumentType": "Command",
        "DocumentFormat": version.format,
    }


def create_document(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """Add a document of the account."""
    if request.get("DocumentType", "Command") != "Command":
        raise Refusal("ValidationException", "The stand-in has documents of the type Command only.")
    form = request.get("DocumentFormat", "JSON")
    document = state.documents.create(request["Name"], request["Content"], form=form, now=state.now())
    document.target_type = request.get("TargetType")
    return {"DocumentDescription": {**_description(document, document.versions[0], state), "Status": "Creating"}}


def _description(document: Document, version: Version, state: State) -> dict[str, Any]:
    parameters = []
    for name, rule in version.parameters.items():
        default = {"DefaultValue": str(rule["default"])} if "default" in rule else {}
        parameters.append({"Name": name, "Type": rule["type"], "Description": rule.get("description", ""), **default})
    return {
        "Hash": version.hash(),
        "HashType": "Sha256",
        "Name": document.name,
        "Owner": document.owner if document.owner == "Amazon" else state.account,
        "CreatedDate": state.shown(version.created),
        "Status": "Active",
        "DocumentVersion": str(version.number),
        "Description": version.description,
        "Parameters": parameters,
        "PlatformTypes": ["Linux", "MacOS"],
        "DocumentType": "Command",
        "SchemaVersion": version.schema,
        "LatestVersion": str(document.versions[-1].number),
        "DefaultVersion": str(document.default),
        "DocumentFormat": version.format,
        "Tags": [],
        **({"TargetType": document.target_type} if document.target_type else {}),
    }


def _row(state: State, instance: Instance) -> dict[str, Any]:
    agent = state.agents[instance.id]
    agent.look()
    since, interval = state.registered[instance.id], state.timing.ping
    last = since + (agent.last_ping - since) // interval * interval
    lost = not agent.reachable and state.now() - last > state.timing.lost
    ping = instance.ping if instance.ping != "Online" else "ConnectionLost" if lost else "Online"
    system, version = PLATFORM_NAMES.get(instance.platform, (instance.platform, "0"))
    hybrid = instance.id.startswith("mi-")
    row: dict[str, Any] = {
        "InstanceId": instance.id,
        "PingStatus": instance.shown_ping or ping,
        "LastPingDateTime": state.shown(last),
        "AgentVersion": instance.agent_version,
        "IsLatestVersion": True,
        "PlatformType": instance.platform,
        "PlatformName": system,
        "PlatformVersion": version,
        "ResourceType": "ManagedInstance" if hybrid else "EC2Instance",
        "IPAddress": instance.address,
        "ComputerName": instance.computer_name or instance.name or instance.id,
        "SourceId": instance.id,
        "SourceType": "AWS::SSM::ManagedInstance" if hybrid else "AWS::EC2::Instance",
    }
    if hybrid:
        # Name, role and activation are those of the activation; an EC2 instance has its name in its tags only.
        row |= {"Name": instance.name, "IamRole": instance.iam_role, "RegistrationDate": state.shown(since)}
        row |= {"ActivationId": instance.activation} if instance.activation else {}
    return row


def _fits(instance: Instance, row: dict[str, Any], key: str, values: list[str]) -> bool:
    columns = {
        "InstanceIds": "InstanceId", "PingStatus": "PingStatus", "PlatformTypes": "PlatformType",
        "AgentVersion": "AgentVersion", "ResourceType": "ResourceType", "ActivationIds": "ActivationId",
        "IamRole": "IamRole",
    }  # fmt: skip
    if key in columns:
        return row.get(columns[key]) in values
    if key == "tag-key":
        return any(value in instance.tags for value in values)
    if key.startswith("tag:"):
        return instance.tags.get(key.removeprefix("tag:")) in values
    raise Refusal("InvalidFilterKey", f"The filter key {key} is not valid.")
