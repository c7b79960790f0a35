"""Arguments of out-of-tree plugins are read as strictly as those of the in-tree ones."""

from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from scheduler.config.load import load, load_object
from scheduler.config.problems import ConfigError
from scheduler.config.types import ExtensionPoint, Seconds
from scheduler.config.write import to_object, to_yaml
from scheduler.daemon.bootstrap import FrameworkBuilder, PluginLoadError, args_types_of
from scheduler.kernel.framework.interface import PostBindPlugin

POINTS = {"Mine": frozenset((ExtensionPoint.POST_BIND,))}


class Mode(StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Level(Enum):
    LOW = "low"


class Tier(IntEnum):
    ONE = 1
    TWO = 2


class Part(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5


class MineArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    label: str = "default"
    parts: list[Part] = []
    limits: dict[str, int] = {}
    mode: Mode = Mode.FAST
    level: Level = Level.LOW
    tier: Tier = Tier.ONE
    patience: Seconds = 60.0
    delays: tuple[Seconds, ...] = (0.5,)
    waits: dict[str, Seconds | None] = {}
    most: int | None = None
    more: Annotated[int, msgspec.Meta(gt=1)] = 2
    names: list[Annotated[str, msgspec.Meta(pattern="^[a-z]+$")]] = []
    first: Part = Part("first")

    def __post_init__(self) -> None:
        if self.label == self.mode:
            raise ValueError("label and mode must differ")


class Mine(PostBindPlugin):
    NAME: ClassVar[str] = "Mine"
    ARGS: ClassVar[type] = MineArgs
    built: ClassVar[list[Any]] = []

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.built.append(args)

    def post_bind(self, *_: Any) -> None: ...


def document(args: Any = None) -> dict[str, Any]:
    profile: dict[str, Any] = {"plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}
    if args is not None:
        profile["pluginConfig"] = [{"name": "Mine", "args": args}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def read(args: Any = None) -> Any:
    return load_object(document(args), out_of_tree=POINTS, args_types={"Mine": MineArgs})


WRITTEN = {
    "label": "",
    "parts": [{"name": "a", "share": 1}, {"name": ""}],
    "limits": {"x": 3},
    "mode": "slow",
    "tier": 2,
    "patience": "1m30s",
    "delays": ["2s", "1m0s"],
    "waits": {"a": "250ms"},
    "most": 7,
}


def test_arguments_of_every_kind() -> None:
    """As the plugin declares them; what is not written is its default."""
    [profile] = read(WRITTEN).profiles

    assert profile.raw_args("Mine") == MineArgs(
        label="",
        parts=[Part("a", 1.0), Part("")],
        limits={"x": 3},
        mode=Mode.SLOW,
        tier=Tier.TWO,
        patience=90.0,
        delays=(2.0, 60.0),
        waits={"a": 0.25},
        most=7,
    )


@pytest.mark.parametrize("args", [WRITTEN, {}, None], ids=["written", "empty", "not there"])
def test_what_is_in_effect_reads_back(args: Any) -> None:
    """Empty values included, which may differ from the default."""
    config = read(args)

    text = to_yaml(config)

    assert load(text, out_of_tree=POINTS, args_types={"Mine": MineArgs}) == config
    [told] = [c for c in to_object(config)["profiles"][0]["pluginConfig"] if c["name"] == "Mine"]
    assert told["args"]["label"] == ("" if args else "default")
    assert told["args"]["patience"] == ("1m30s" if args else "1m0s")
    assert told["args"]["delays"] == (["2s", "1m0s"] if args else ["500ms"])


@pytest.mark.parametrize(
    ("args", "problems"),
    [
        pytest.param(
            {"lable": "x", "mode": "fsat"},
            [
                '.lable: unknown field; did you mean "label"?',
                '.mode: expected one of fast, slow, got "fsat"; did you mean "fast"?',
            ],
            id="several at once",
        ),
        pytest.param({"label": 3}, [".label: expected a text"], id="type"),
        pytest.param(
            {"tier": "1"}, ['.tier: expected one of 1, 2, got "1"'], id="text of a number"
        ),
        pytest.param({"tier": True}, [".tier: expected one of 1, 2, got true"], id="no number"),
        pytest.param(
            {"parts": [{"share": 2}]},
            [".parts[0].name: required", ".parts[0].share: expected 1 or less, got 2"],
            id="within a list",
        ),
        pytest.param(
            {"limits": {"x": "y"}},
            ['.limits.x: expected a whole number, got "y"'],
            id="within a mapping",
        ),
        pytest.param({"patience": 3}, [".patience: expected a duration"], id="duration"),
        pytest.param({"label": "fast"}, [": label and mode must differ"], id="own check"),
        pytest.param([], [": expected a mapping"], id="no mapping"),
        pytest.param({"more": 1}, [".more: expected int >= 2"], id="constraint"),
        pytest.param(
            {"names": ["a", "B"]},
            [".names[1]: expected str matching regex"],
            id="constraint within",
        ),
    ],
)
def test_what_is_wrong_has_its_path(args: Any, problems: list[str]) -> None:
    """Everything at once, in the words used for Stowage's own."""
    with pytest.raises(ConfigError) as refused:
        read(args)

    told = [str(problem) for problem in refused.value.problems]
    assert len(told) == len(problems)
    for text, expected in zip(sorted(told), sorted(problems), strict=True):
        assert text.startswith(f"profiles[0].pluginConfig[0].args{expected}"), text


class Rough(msgspec.Struct, frozen=True):
    limits: dict[str, int] = {}

    def __post_init__(self) -> None:
        if self.limits["cpu"] > 1:
            raise TypeError("no such comparison")


@pytest.mark.parametrize(
    ("limits", "message"),
    [({}, "KeyError: 'cpu'"), ({"cpu": 2}, "TypeError: no such comparison")],
)
def test_a_type_may_raise_anything(limits: dict[str, int], message: str) -> None:
    """As any mistake in the file."""
    with pytest.raises(ConfigError) as refused:
        load_object(document({"limits": limits}), out_of_tree=POINTS, args_types={"Mine": Rough})

    [problem] = refused.value.problems
    assert str(problem) == f"profiles[0].pluginConfig[0].args: {message}"


def test_problems_have_their_line() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Mine}]}}
  pluginConfig:
  - name: Mine
    args:
      most: many
"""

    with pytest.raises(
        ConfigError, match=r"^c: line 9: profiles\[0\]\.pluginConfig\[0\]\.args\.most"
    ):
        load(text, source="c", out_of_tree=POINTS, args_types={"Mine": MineArgs})


class Needy(msgspec.Struct):
    must: int


class Odd(msgspec.Struct):
    fine: dict[str, list[int]]
    parts: list[set[int]]


class Tangled(msgspec.Struct):
    parts: list["Tangled"]


class Wide(msgspec.Struct):
    part: Part | Odd


def plugin_with(args_type: Any) -> type[PostBindPlugin]:
    class Other(Mine):
        NAME = "Mine"
        ARGS = args_type

    return Other


def test_a_plugin_that_must_be_told_something() -> None:
    """And is not configured."""
    with pytest.raises(ConfigError, match=r'"Mine" has to be told something: args\.must: required'):
        load_object(document(), out_of_tree=POINTS, args_types={"Mine": Needy})


class Picky(msgspec.Struct):
    """Refuses its own defaults."""

    share: int = 0

    def __post_init__(self) -> None:
        if not self.share:
            raise ValueError("share must not be 0")


def test_a_plugin_whose_defaults_are_refused() -> None:
    """The message of the plugin follows the path."""
    told = r'"Mine" has to be told something: args: share must not be 0'
    with pytest.raises(ConfigError, match=told):
        load_object(document(), out_of_tree=POINTS, args_types={"Mine": Picky})


@pytest.mark.parametrize(
    ("args_type", "message"),
    [
        (Odd, r"ARGS: parts\[\] is of a type that arguments cannot have"),
        (Tangled, "ARGS: of a type that arguments cannot have: RecursionError"),
        (Wide, "ARGS: of a type that arguments cannot have: TypeError"),
        (int | str, "ARGS: expected a msgspec.Struct"),
        (dict, "ARGS: expected a msgspec.Struct"),
    ],
)
def test_arguments_that_nobody_could_write(args_type: Any, message: str) -> None:
    """Are a mistake of the plugin's author."""
    with pytest.raises(PluginLoadError, match=message):
        args_types_of({"Mine": plugin_with(args_type)}).get("Mine")


def test_whoever_does_not_know_the_type_leaves_it_to_the_plugin() -> None:
    """The same reading, when it is built."""
    Mine.built.clear()
    config = load_object(document({"most": 3}), out_of_tree=POINTS)
    FrameworkBuilder(lambda: 0.0, out_of_tree={"Mine": Mine}).build(config)
    wrong = load_object(document({"least": 3}), out_of_tree=POINTS)

    assert Mine.built == [MineArgs(most=3)]
    with pytest.raises(PluginLoadError, match=r'plugin "Mine": args\.least: unknown field'):
        FrameworkBuilder(lambda: 0.0, out_of_tree={"Mine": Mine}).build(wrong)
