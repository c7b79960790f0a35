"""Cases with changed objects are repeatable, and keep the names by which objects are found."""

from tests.parity.generator.draw import Object
from tests.parity.mutated import make_mutated


def identity(thing: Object) -> tuple[object, ...]:
    meta = thing["metadata"]
    return thing["kind"], thing["apiVersion"], meta["name"], meta.get("namespace")


def test_a_seed_makes_the_same_case_again() -> None:
    assert make_mutated("odd", 3) == make_mutated("odd", 3)
    assert make_mutated("odd", 3) != make_mutated("odd", 4)


def test_objects_are_changed_and_keep_their_names() -> None:
    case, changed = make_mutated("mixed", 1)

    pairs = list(zip(case["objects"], changed["objects"], strict=True))
    assert [identity(new) for _, new in pairs] == [identity(old) for old, _ in pairs]
    assert any(old != new for old, new in pairs)
