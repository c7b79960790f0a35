"""`stowage explain`: why each waiting pod goes where it goes, or nowhere."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from scheduler.config.load import load, load_object
from scheduler.config.problems import ConfigError
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.errors import SchedulerError
from scheduler.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.offline.explain import Answer, explain as explain_pods
from scheduler.offline.reading import (
    ClusterObjects,
    InputError,
    documents_from_text,
    objects_from_documents,
)

BAD_INPUT = 2


def read_files(files: Iterable[str]) -> ClusterObjects:
    """The objects of all files together; `-` is standard input.

    Raises:
        InputError: a file cannot be read.
    """
    documents: list[tuple[str, Any]] = []
    for name in files:
        documents.extend(documents_from_text(_text(name), _source(name)))
    return objects_from_documents(documents)


def read_config(file: str | None) -> KubeSchedulerConfiguration | None:
    """The configuration in a file, or None.

    Raises:
        ConfigError: the configuration is wrong.
        InputError: the file cannot be read.
    """
    return None if file is None else load(_text(file), source=file)


def _source(name: str) -> str:
    return "standard input" if name == "-" else name


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as problem:
        raise InputError(f"{name}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"{name}: not a text in UTF-8") from problem


def answer_case(line: str) -> Answer:
    """The answer to one line of `--jsonl` input; a broken case gives an error, not a crash."""
    try:
        case = msgspec.json.decode(line)
        if not isinstance(case, dict):
            raise InputError('expected an object with "objects"')
        raw_config = case.get("config")
        config = None
        if raw_config is not None:
            config = load_object(
                raw_config, source="config", default_scheduler_name=DEFAULT_PROFILE
            )
        documents = ((f"objects[{i}]", raw) for i, raw in enumerate(case.get("objects") or ()))
        return Answer(tuple(explain_pods(Profiles(config), objects_from_documents(documents))))
    except msgspec.DecodeError as problem:
        return Answer(error=f"not valid JSON: {problem}")
    except SchedulerError as problem:
        return Answer(error=str(problem))


@click.command()
@click.option("-f", "--filename", "files", multiple=True, help="File with objects; - for stdin.")
@click.option("--config", "config_file", help="KubeSchedulerConfiguration with the profiles.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.option("--jsonl", is_flag=True, help="Read one case per line on standard input.")
def explain(files: tuple[str, ...], config_file: str | None, output: str, *, jsonl: bool) -> None:
    """Say for every waiting pod what each plugin thinks of each node."""
    del output
    encoder = msgspec.json.Encoder()
    if jsonl:
        for line in sys.stdin:
            if line.strip():
                sys.stdout.buffer.write(encoder.encode(answer_case(line)) + b"\n")
                sys.stdout.buffer.flush()
        return
    try:
        objects = read_files(files)
        answer = Answer(tuple(explain_pods(Profiles(read_config(config_file)), objects)))
    except (InputError, ConfigError) as problem:
        click.echo(f"stowage explain: {problem}", err=True)
        sys.exit(BAD_INPUT)
    sys.stdout.buffer.write(encoder.encode(answer) + b"\n")
