"""`stowage shadow`: what people read, and what is wrong with the options."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from scheduler.kernel.answers.model import CurrentPlacement, NextNode, PluginRejection
from scheduler.kernel.answers.shadow_model import Disagreement, ShadowSummary
from scheduler.tools.cli.shadow import _profiles_called, shadow
from scheduler.tools.cli.shadow_text import disagreement_text, summary_lines

NONE = dict.fromkeys(("agreed", "only", "raced", "lower", "unfit", "failed"), 0)
LOWER = Disagreement(
    pod="shop/web-1",
    scheduler="default-scheduler",
    time="t",
    result="lower",
    fitting=12,
    nominated_node="",
    rejection=None,
    placed=CurrentPlacement(
        "n4",
        fits=True,
        rank=5,
        total=400,
        ahead=-20,
        next=NextNode("n3", 420),
        scores={"NodeResourcesFit": -24, "ImageLocality": 4, "NodeAffinity": 0},
    ),
)
UNFIT = Disagreement(
    pod="shop/web-0",
    scheduler="default-scheduler",
    time="t",
    result="unfit",
    fitting=2,
    nominated_node="",
    rejection=PluginRejection("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",)),
    placed=CurrentPlacement("n1", fits=False, next=NextNode("n3", 420)),
)


def changed(told: Disagreement, **fields: object) -> Disagreement:
    return replace(told, **fields)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        pytest.param(
            LOWER,
            "t shop/web-1 on n4, number 5 of 12 (400), 20 behind n3 (420): NodeResourcesFit -24, "
            "ImageLocality +4",
            id="lower",
        ),
        pytest.param(
            changed(LOWER, nominated_node="n9"),
            "t shop/web-1 on n4, number 5 of 12 (400); it is nominated to n9, where it fits",
            id="nominated",
        ),
        pytest.param(
            UNFIT,
            "t shop/web-0 on n1, where it does not fit: NodeResourcesFit: Insufficient cpu; "
            "fits on 2 nodes, best n3 (420)",
            id="unfit",
        ),
        pytest.param(
            changed(UNFIT, rejection=None, fitting=0, placed=CurrentPlacement("n7", fits=False)),
            "t shop/web-0 on n7, where it does not fit: no such node is known; fits on 0 nodes",
            id="unknown node",
        ),
    ],
)
def test_a_disagreement_is_one_line(told: Disagreement, text: str) -> None:
    """Where the pod is, and why we would not have it there."""
    assert disagreement_text(told) == text


def test_a_summary_says_what_counts() -> None:
    """What there was none of is left out, unless it is what people look for."""
    summary = ShadowSummary(
        time="t",
        schedulers=("default-scheduler",),
        seconds=60.0,
        bindings=11,
        results={**NONE, "agreed": 6, "only": 2, "unfit": 2},
        open=1,
        unjudged={"before": 4, "unseen": 0},
        examples=(UNFIT,),
    )

    assert list(summary_lines(summary)) == [
        "t  default-scheduler: 10 bindings in 60 s, 80.0% agreed",
        "        6 agreed   on a node that we would choose among",
        "        2 only     on the only node that fits",
        "        0 lower    on a node that fits; we would choose another",
        "        2 unfit    on a node that does not fit",
        "        1 open     to be looked at again",
        "        4 before   not judged: had a node when the watch began",
        f"  {disagreement_text(UNFIT)}",
    ]


def test_profiles_judge_the_pods_of_their_names(tmp_path: Path) -> None:
    """Without a file the default one judges whoever is named."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: one}, {schedulerName: two}]\n"
    )

    assert list(_profiles_called((), None, ()).frameworks) == ["default-scheduler"]
    assert list(_profiles_called(("x", "y"), None, ()).frameworks) == ["x", "y"]
    assert list(_profiles_called((), str(file), ()).frameworks) == ["one", "two"]
    named = _profiles_called(("two", "x"), str(file), ()).frameworks
    assert [each.profile_name for each in named.values()] == ["two", "one"]


def test_the_feature_gates_of_the_other_scheduler_count() -> None:
    """A taint rule is watched with its gate only."""
    with_rules = _profiles_called((), None, ("DRADeviceTaintRules=true",))

    kinds = [
        {kind.kind for kind in profiles.watched}
        for profiles in (_profiles_called((), None, ()), with_rules)
    ]
    assert kinds[1] - kinds[0] == {"DeviceTaintRule"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(["--feature-gates=Gangs=true"], "Gangs", id="no feature gate"),
        pytest.param(["--kubeconfig=nowhere"], "stowage shadow: ", id="no kubeconfig"),
        pytest.param(["--config=nowhere"], "nowhere: cannot be read", id="no configuration"),
        pytest.param(["--every=0"], "0", id="never"),
    ],
)
def test_what_cannot_be_used_is_one_message(options: list[str], expected: str) -> None:
    """And status 2."""
    result = CliRunner().invoke(shadow, options)

    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.stderr
