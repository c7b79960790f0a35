"""What a configuration asks for and this version does not do is refused, unless that is allowed."""

from pathlib import Path

import pytest

from scheduler.bootstrap.configuration import read_configuration
from scheduler.config.options import RunOptions
from scheduler.config.problems import ConfigError

GANGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}
"""
SENTENCE = (
    'profiles[0].plugins.multiPoint.enabled: "GangScheduling" is not part of this version; '
    "--allow-unsupported goes on without it"
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "gangs.yaml"
    path.write_text(GANGS)
    return str(path)


def test_what_is_asked_for_and_not_done_is_refused(file: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_configuration(RunOptions(config=file), {})

    assert [str(problem) for problem in refused.value.problems] == [SENTENCE]
    assert file in str(refused.value)


def test_it_is_said_where_it_is_allowed(file: str) -> None:
    config, notices = read_configuration(RunOptions(config=file, allow_unsupported=True), {})

    assert [profile.scheduler_name for profile in config.profiles] == ["a"]
    assert SENTENCE in notices
