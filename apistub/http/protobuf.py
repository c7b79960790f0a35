"""Request bodies in Kubernetes' protobuf form, in which `kubectl create KIND NAME` sends objects.

Only the fields such a command can set are known; everything else is sent as JSON anyway.
Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf; generated.proto of each group; the
encoding guide of protobuf.dev.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from apistub.storage.kinds import Object
from apistub.storage.status import StatusError, bad_request

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_TYPES: Final = """
ConfigMap metadata=1:Meta data=2:{}text binaryData=3:{}bytes immutable=4:bool
Container name=1:text image=2:text command=3:[]text args=4:[]text ports=6:[]ContainerPort
ContainerPort name=1:text containerPort=3:int protocol=4:text
DeleteOptions gracePeriodSeconds=1:int preconditions=2:Preconditions
Deployment metadata=1:Meta spec=2:DeploymentSpec
DeploymentSpec replicas=1:int selector=2:Selector template=3:Template
IntOrString type=1:int intVal=2:int strVal=3:text
Meta name=1:text generateName=2:text namespace=3:text labels=11:{}text annotations=12:{}text
Namespace metadata=1:Meta
PodDisruptionBudget metadata=1:Meta spec=2:BudgetSpec
BudgetSpec minAvailable=1:IntOrString selector=2:Selector maxUnavailable=3:IntOrString
PodSpec containers=2:[]Container restartPolicy=3:text
Preconditions uid=1:text
PriorityClass metadata=1:Meta value=2:int globalDefault=3:bool description=4:text preemptionPolicy=5:text
Requirement key=1:text operator=2:text values=3:[]text
Secret metadata=1:Meta data=2:{}bytes type=3:text immutable=5:bool
Selector matchLabels=1:{}text matchExpressions=2:[]Requirement
Service metadata=1:Meta spec=2:ServiceSpec
ServiceAccount metadata=1:Meta
ServicePort name=1:text protocol=2:text port=3:int targetPort=4:IntOrString nodePort=5:int
ServiceSpec ports=1:[]ServicePort selector=2:{}text clusterIP=3:text type=4:text externalName=10:text
Template metadata=1:Meta spec=2:PodSpec
"""  # noqa: E501 - a table
"""Messages and their fields: name in JSON, number, type, as a list (`[]`) or map (`{}`) of it."""
_VARINT, _BYTES = 0, 2
_MORE: Final = 0x80
_SIGN_BIT: Final = 1 << 63

Fields = Mapping[int, list[int | bytes]]
"""The values of a message by field number, in the order they come."""


def _tables() -> Mapping[str, Mapping[int, tuple[str, str]]]:
    tables: dict[str, dict[int, tuple[str, str]]] = {}
    for line in _TYPES.strip().splitlines():
        name, *fields = line.split()
        table = tables.setdefault(name, {})
        for field in fields:
            path, _, its_type = field.partition(":")
            json_name, _, number = path.partition("=")
            table[int(number)] = (json_name, its_type)
    return tables


_FIELDS: Final = _tables()


def decode(body: bytes) -> Object:
    """The object in a protobuf body.

    Raises:
        StatusError: 400 for what is not one, 415 for a kind that is not in the table.
    """
    if not body.startswith(_MAGIC):
        raise bad_request("the body is not in Kubernetes' protobuf form")
    try:
        envelope = _fields(body[len(_MAGIC) :])
        meta = _fields(_last(envelope, 1))
        api_version, kind = _last(meta, 1).decode(), _last(meta, 2).decode()
        if kind not in _FIELDS:
            raise StatusError(415, f"a {kind} in protobuf is not understood here; send JSON")
        return {"apiVersion": api_version, "kind": kind, **_message(_last(envelope, 2), kind)}
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf cannot be read: {error}") from error


def _message(raw: bytes, name: str) -> Object:
    content: Object = {}
    for number, values in _fields(raw).items():
        json_name, its_type = _FIELDS[name].get(number, ("", ""))
        if its_type.startswith("[]"):
            content[json_name] = [_value(value, its_type[2:]) for value in values]
        elif its_type.startswith("{}"):
            pairs = [_fields(value) for value in values if isinstance(value, bytes)]
            content[json_name] = {
                _last(pair, 1).decode(): _value(_last(pair, 2), its_type[2:]) for pair in pairs
            }
        elif its_type:
            content[json_name] = _value(values[-1], its_type)
    # Go also writes texts that are not set.
    return {json_name: value for json_name, value in content.items() if value != ""}


def _value(value: int | bytes, its_type: str) -> Any:
    if isinstance(value, int):
        number = value - (1 << 64) if value & _SIGN_BIT else value
        return bool(number) if its_type == "bool" else number
    match its_type:
        case "text":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "IntOrString":
            either = _message(value, its_type)
            return either.get("strVal", "") if either.get("type") else either.get("intVal", 0)
        case _:
            return _message(value, its_type)


def _fields(raw: bytes) -> Fields:
    fields: dict[int, list[int | bytes]] = {}
    for number, value in _read(raw):
        fields.setdefault(number, []).append(value)
    return fields


def _last(fields: Fields, number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def _read(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(raw):
        tag, position = _varint(raw, position)
        value, position = _varint(raw, position)
        if tag & 7 == _VARINT:
            yield tag >> 3, value
        elif tag & 7 == _BYTES and position + value <= len(raw):
            yield tag >> 3, raw[position : position + value]
            position += value
        else:
            raise IndexError(f"field {tag >> 3} ends after the message or has another form")


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = raw[position]
        position += 1
        number |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return number, position
        shift += 7
