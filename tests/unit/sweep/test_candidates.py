"""Configurations of a sweep: files, and the points of a grid."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.config.load import default_configuration, load
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_object
from scheduler.errors import SchedulerError
from scheduler.tools.offline.configured import profiles_from_text
from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.candidates import CandidateConfig, from_directory, from_grid

RECORDED = to_object(default_configuration("stowage"))
MANY = list(range(1000))


def grid(folder: Path, text: str, recorded: dict[str, Any] = RECORDED) -> list[CandidateConfig]:
    file = folder / "grid.yaml"
    file.write_text(text)
    return from_grid(file, [recorded])


def read(candidate: CandidateConfig) -> KubeSchedulerConfiguration:
    return load(candidate.text, source=candidate.name)


def score_weights(candidate: CandidateConfig) -> dict[str, int]:
    [profile] = read(candidate).profiles
    entries = (*profile.plugins.multi_point.enabled, *profile.plugins.score.enabled)
    off = {plugin.name for plugin in profile.plugins.score.disabled}
    return {entry.name: entry.weight for entry in entries if entry.name not in off}


def test_a_grid_is_all_combinations(tmp_path: Path) -> None:
    """Weights and arguments, each valid as kube-scheduler has them."""
    found = grid(
        tmp_path,
        """
        weights: {NodeResourcesFit: [1, 5], PodTopologySpread: [0, 2]}
        args: {NodeResourcesFit: {scoringStrategy.type: [MostAllocated]}}
        """,
    )

    assert [candidate.name for candidate in found] == [
        "NodeResourcesFit=1,PodTopologySpread=0,NodeResourcesFit.scoringStrategy.type=MostAllocated",
        "NodeResourcesFit=1,PodTopologySpread=2,NodeResourcesFit.scoringStrategy.type=MostAllocated",
        "NodeResourcesFit=5,PodTopologySpread=0,NodeResourcesFit.scoringStrategy.type=MostAllocated",
        "NodeResourcesFit=5,PodTopologySpread=2,NodeResourcesFit.scoringStrategy.type=MostAllocated",
    ]
    weights = [score_weights(candidate) for candidate in found]
    assert [each["NodeResourcesFit"] for each in weights] == [1, 1, 5, 5]
    assert ["PodTopologySpread" in each for each in weights] == [False, True, False, True]
    [profile] = read(found[0]).profiles
    [fit] = [config.args for config in profile.plugin_config if config.name == "NodeResourcesFit"]
    assert to_object(read(found[0]))["profiles"][0]["pluginConfig"]
    assert getattr(fit, "scoring_strategy").type == "MostAllocated"  # noqa: B009 - of any plugin


def test_points_of_a_grid_do_not_change_each_other(tmp_path: Path) -> None:
    """Nor the recorded configuration, from which all begin."""
    before = str(RECORDED)

    found = grid(tmp_path, "weights: {NodeResourcesFit: [7], ImageLocality: [3]}")

    assert str(RECORDED) == before
    assert score_weights(found[0])["ImageLocality"] == 3
    assert score_weights(found[0])["TaintToleration"] == 3


def test_recordings_of_several_configurations_are_told(tmp_path: Path) -> None:
    """Unless the grid names the one to vary."""
    (tmp_path / "base.yaml").write_text(f"{HEAD}profiles: [{{schedulerName: stowage}}]\n")
    (tmp_path / "grid.yaml").write_text("weights: {ImageLocality: [9]}")
    (tmp_path / "named.yaml").write_text(
        "{configuration: base.yaml, weights: {ImageLocality: [9]}}"
    )
    other, notes = {**RECORDED, "parallelism": 3}, list[str]()

    from_grid(tmp_path / "grid.yaml", [RECORDED, RECORDED], notes.append)
    from_grid(tmp_path / "named.yaml", [RECORDED, other], notes.append)
    assert notes == []
    from_grid(tmp_path / "grid.yaml", [RECORDED, other], notes.append)

    [note] = notes
    assert note.startswith(f"--grid {tmp_path}/grid.yaml: it varies the configuration of the first")


def test_a_grid_starts_from_the_file_that_it_names(tmp_path: Path) -> None:
    """Relative to the grid; only the profiles that are meant are changed."""
    (tmp_path / "base.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: a}, {schedulerName: b}]\n"
    )

    [found] = grid(
        tmp_path, "{configuration: base.yaml, profiles: [b], weights: {ImageLocality: [9]}}"
    )

    a, b = read(found).profiles
    weights = [
        next(e.weight for e in profile.plugins.multi_point.enabled if e.name == "ImageLocality")
        for profile in (a, b)
    ]
    assert weights == [1, 9]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("weights: {}", "expected weights or args with values to try"),
        ("weights: {ImageLocality: []}", "weights.ImageLocality: expected numbers, found none"),
        (
            "weights:\n  ImageLocality: [1, -1]",
            "line 2: weights.ImageLocality[1]: expected 0 or more, got -1",
        ),
        ("weights: {ImageLocality: 1}", "weights.ImageLocality: expected a list"),
        ("weights: {ImageLocality: [x]}", '[0]: expected a whole number, got "x"'),
        ("wieghts: {ImageLocality: [1]}", "line 1: wieghts: unknown field; did you mean"),
        ("weights: {ImageLocality: [1], ImageLocality: [2]}", "given twice"),
        ("weights: [", "line 2: not valid YAML"),
        ("args: {VolumeBinding: {bindTimeoutSeconds: []}}", "expected values, found none"),
        ("{profiles: [other], weights: {ImageLocality: [1]}}", "no profile is called other"),
        (
            "{profiles: [stowage, batch], weights: {ImageLocality: [1]}}",
            "profiles: no profile is called batch",
        ),
        (
            "{configuration: none.yaml, weights: {ImageLocality: [1]}}",
            "/none.yaml: cannot be read: no such file or directory",
        ),
        ("[1]", "expected a mapping with fields such as args, configuration, profiles"),
        ("", "expected"),
        (f"weights: {{A: {MANY}, B: {MANY}}}", "1000000 combinations"),
    ],
)
def test_a_grid_that_is_wrong_has_one_clear_message(tmp_path: Path, text: str, told: str) -> None:
    """With the file, the field and what was expected."""
    with pytest.raises(SchedulerError, match="--grid") as failed:
        grid(tmp_path, text)

    assert told in str(failed.value)


def test_a_grid_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    """Without the number of the error."""
    file = tmp_path / "none.yaml"

    with pytest.raises(InputError) as failed:
        from_grid(file, [])

    assert str(failed.value) == f"--grid {file}: cannot be read: no such file or directory"


def test_a_directory_has_a_candidate_for_each_file(tmp_path: Path) -> None:
    """By name; other files are none."""
    for name in ("b.yaml", "a.json", "notes.txt"):
        (tmp_path / name).write_text(name)

    assert from_directory(tmp_path) == [
        CandidateConfig("a", "a.json"),
        CandidateConfig("b", "b.yaml"),
    ]


def test_a_directory_without_configurations_is_refused(tmp_path: Path) -> None:
    """So is one that is not there."""
    with pytest.raises(InputError, match="found none"):
        from_directory(tmp_path)
    with pytest.raises(InputError, match=r"/absent: cannot be read: no such file or directory$"):
        from_directory(tmp_path / "absent")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.yaml", b"\xff\xfe", "/a.yaml: not a text in UTF-8"),
        ("b\udcff.yaml", b"", r"/b\udcff.yaml': expected a name in UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, name: str, text: bytes, told: str) -> None:
    """So is a name that no table can have."""
    (tmp_path / name).write_bytes(text)

    with pytest.raises(InputError) as problem:
        from_directory(tmp_path)

    assert str(problem.value).startswith("--configs ")
    assert str(problem.value).endswith(told)


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(
    "profile",
    [
        "{plugins: {score: {disabled: [{name: ImageLocality}]}}}",
        "{plugins: {score: {disabled: [{name: '*'}]}}}",
        "{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}}}",
        "{plugins: {multiPoint: {enabled: [name: ImageLocality]}, score: {disabled: [name: '*']}}}",
        "{plugins: {multiPoint: {disabled: [{name: ImageLocality}]}}}",
        "{plugins: }",
        "{plugins: {score: }, pluginConfig: }",
        "{plugins: {score: {enabled: , disabled: }, multiPoint: }}",
        "{plugins: {score: {disabled: [{name: ImageLocality}, {name: '*'}]}}}",
    ],
)
def test_a_weight_has_effect_whatever_the_base_disables(tmp_path: Path, profile: str) -> None:
    """Its scores count with that weight, and those of 0 do not."""
    (tmp_path / "base.yaml").write_text(f"{HEAD}profiles: [{profile}]\n")

    on, off = grid(tmp_path, "configuration: base.yaml\nweights: {ImageLocality: [7, 0]}")

    assert weights_in_force(on)["ImageLocality"] == 7
    assert "ImageLocality" not in weights_in_force(off)


def weights_in_force(candidate: CandidateConfig) -> dict[str, int]:
    """What frameworks that are built of it multiply scores by."""
    profiles, _ = profiles_from_text(candidate.text, candidate.name)
    framework = next(iter(profiles.frameworks.values()))
    return {each.name: each.weight for each in framework.plugins.score}


@pytest.mark.parametrize(
    ("base", "told"),
    [
        ("profiles: {a: b}", "Expected `array`, got `object` - at `$.profiles`"),
        ("profiles: [a]", "Expected `object`, got `str`"),
        ("profiles: [{plugins: [a]}]", "Expected `object`, got `array`"),
        ("profiles: [{plugins: {score: {enabled: [5]}}}]", "Expected `object`, got `int`"),
        ("profiles: [{pluginConfig: {}}]", "Expected `array`, got `object`"),
    ],
)
def test_a_base_of_another_form_is_one_message(tmp_path: Path, base: str, told: str) -> None:
    """It names the grid."""
    (tmp_path / "base.yaml").write_text(f"{HEAD}{base}\n")

    with pytest.raises(InputError) as problem:
        grid(tmp_path, "configuration: base.yaml\nweights: {ImageLocality: [7]}")

    assert str(problem.value).startswith(f"--grid {tmp_path / 'grid.yaml'}: the configuration to")
    assert told in str(problem.value)


def test_an_entry_without_a_name_fails_its_run_only(tmp_path: Path) -> None:
    """The configuration is wrong, and its run says so."""
    entry = "{plugins: {score: {enabled: [{weight: 1}]}}, pluginConfig: [{args: {}}]}"
    (tmp_path / "base.yaml").write_text(f"{HEAD}profiles: [{entry}]\n")
    args = "args: {NodeResourcesFit: {scoringStrategy.type: [MostAllocated]}}"

    [found] = grid(tmp_path, f"configuration: base.yaml\nweights: {{ImageLocality: [7]}}\n{args}")

    with pytest.raises(SchedulerError, match="name"):
        read(found)
