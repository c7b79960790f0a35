"""Values, schema and templates of the chart name the same values; this takes no helm."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scheduler.config.flags import BY_NAME
from scheduler.operator.extra_args import REFUSED

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "stowage"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
OWN = {name: each for name, each in SCHEMA["properties"].items() if name != "global"}
"""The values of the chart; `global` is Helm's."""


def fields(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of an object that has no others; none of one whose content is the user's."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    known = schema.get("additionalProperties", True) is False
    return dict(schema["properties"]) if known else {}


def described() -> Iterator[str]:
    """The paths of all values in the schema."""
    for name, schema in OWN.items():
        inner = fields(schema)
        yield from (f"{name}.{each}" for each in inner) if inner else (name,)


def test_each_value_has_a_default_and_a_type() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    found: set[str] = set()
    for name, value in values.items():
        is_section = bool(fields(OWN.get(name, {})))
        found |= {f"{name}.{each}" for each in value} if is_section else {name}

    assert found == set(described())


def test_each_value_is_used() -> None:
    """Fields of `image` are read inside a `with`."""
    templates = "\n".join(path.read_text() for path in (CHART / "templates").iterdir())

    for path in described():
        read = path.removeprefix("image") if path.startswith("image.") else f".Values.{path}"
        assert re.search(rf"{re.escape(read)}\b", templates), path


def test_no_section_may_be_missing() -> None:
    """Templates look into all of them; Helm's message about a null would name a template."""
    sections = {name for name, schema in OWN.items() if fields(schema)}

    assert sections | {"configuration", "replicas"} == set(SCHEMA["required"])


def test_the_chart_refuses_the_flags_that_the_operator_refuses() -> None:
    """Each is a flag; those that the Deployment always sets are among them."""
    checks = (CHART / "templates" / "checks.yaml").read_text()
    refused = set(re.findall(r'"--([a-z-]+)" "', checks))
    refused |= {f"leader-elect{each}" for each in re.findall(r'"(-resource-[a-z]+)"', checks)}
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    always = set(
        re.findall(
            r"- --?([a-z-]+)=",
            deployment.partition("if .Values.serving.secretName }}\n            - ")[0],
        )
    )

    assert always == {"config", "logging-format", "v"}
    assert always | set(REFUSED) <= refused <= set(BY_NAME)


def test_the_chart_knows_a_flag_by_the_spellings_that_the_daemon_takes() -> None:
    """The daemon takes `_` as `-`."""
    checks = (CHART / "templates" / "checks.yaml").read_text()
    [(pattern, old, new)] = re.findall(r'regexFind "([^"]+)" \$flag \| replace "(.)" "(.)"', checks)

    for name in REFUSED:
        for written in (f"--{name}=x", f"--{name.replace('-', '_')}=x"):
            found = re.search(pattern, written)
            assert found is not None
            assert found[0].replace(old, new) == f"--{name}"


def test_names_are_texts() -> None:
    """YAML would take the release `on` for a boolean, and the namespace `123` for a number."""
    templates = "\n".join(path.read_text() for path in (CHART / "templates").iterdir())
    names = r"\.Release\.Name(?:space)?|\$secret|(?<=ecretName: \{\{ )\.|(?<=ClassName: \{\{ )\."

    assert re.findall(rf"(?m): \{{\{{ (?:{names}) \}}\}}(?:$|[,}}])", templates) == []


def of_the_kind(*path: str) -> dict[str, Any]:
    """The schema of a field of `Scheduler`."""
    crd = yaml.safe_load((CHART.parents[1] / "operator" / "schedulers.yaml").read_text())
    [version] = crd["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name in path:
        found = found["properties"][name]
    return found


def test_what_the_chart_takes_is_what_a_scheduler_takes() -> None:
    """A comma would make two audiences of one; a flag with one dash would end the daemon."""
    audiences = SCHEMA["properties"]["serving"]["properties"]["tokenAudiences"]["items"]
    flag = re.compile(SCHEMA["properties"]["extraArgs"]["items"]["pattern"])
    replicas = SCHEMA["properties"]["replicas"]

    assert audiences["pattern"] == of_the_kind("serving", "tokenAudiences")["items"]["pattern"]
    assert replicas["maximum"] == of_the_kind("replicas")["maximum"]
    assert flag.pattern.replace("_", "") == of_the_kind("extraArgs")["items"]["pattern"]
    for written in ("-config=x", "--config x", "config", "--Config=x"):
        assert not flag.search(written)
    for written in ("--kube-api-qps=5", "--kube_api_qps=5", "--allow-unsupported", "--vmodule=a b"):
        assert flag.search(written)
