"""The heap from which any pod can be taken out."""

from hypothesis import given, strategies as st
from typing_extensions import override

from scheduler.kernel.queue.active import PodHeap
from tests.support.builders import make_queued_pod_info

PODS = {f"p{i}": make_queued_pod_info(f"p{i}", uid=f"p{i}") for i in range(8)}


def test_equal_keys_come_out_in_order_of_arrival() -> None:
    """Among pods of one key the first come is the first served."""
    heap = PodHeap()
    for uid in ("p3", "p1", "p2"):
        heap.push(uid, PODS[uid], 7)

    popped = [heap.pop(), heap.pop(), heap.pop(), heap.pop()]

    assert popped == [PODS["p3"], PODS["p1"], PODS["p2"], None]


def test_a_pod_with_a_new_key_keeps_its_arrival() -> None:
    """A pod whose key changes back and forth does not lose its turn."""
    heap = PodHeap()
    heap.push("p1", PODS["p1"], 5)
    heap.push("p2", PODS["p2"], 5)

    heap.rekey("p1", 9)
    heap.rekey("p1", 5)

    assert heap.in_order() == [PODS["p1"], PODS["p2"]]


def test_removed_entries_do_not_pile_up() -> None:
    """A heap in which pods come and go without being popped stays small."""
    heap = PodHeap()
    heap.push("p0", PODS["p0"], 0)

    for round_ in range(1000):
        heap.push("p1", PODS["p1"], round_)
        heap.remove("p1")

    assert (len(heap), len(heap._heap) <= 66) == (1, True)


def test_pods_are_taken_out_of_a_large_heap_without_sorting_it_again() -> None:
    """As long as most of its entries are good."""
    compared: list[int] = []

    class Key(int):
        @override
        def __lt__(self, other: int) -> bool:
            compared.append(self)
            return int(self) < int(other)

    heap = PodHeap()
    for i in range(400):
        heap.push(f"q{i}", PODS["p0"], Key(i))
    compared.clear()

    for i in range(100, 200):
        heap.remove(f"q{i}")

    assert len(compared) < 1000


def test_entries_with_former_keys_do_not_pile_up() -> None:
    """A heap in which keys change without a pop stays small."""
    heap = PodHeap()
    heap.push("p0", PODS["p0"], 0)
    heap.push("p1", PODS["p1"], 1)

    for round_ in range(1000):
        heap.rekey("p1", round_ + 2)

    assert (len(heap), len(heap._heap) <= 66) == (2, True)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["push", "remove", "rekey", "pop"]),
            st.sampled_from(sorted(PODS)),
            st.integers(0, 3),
        ),
        max_size=60,
    )
)
def test_the_heap_agrees_with_a_sorted_list(steps: list[tuple[str, str, int]]) -> None:
    """Whatever is done to it, the heap hands out what a sorted list would."""
    heap = PodHeap()
    model: dict[str, tuple[int, int]] = {}

    for arrival, (step, uid, key) in enumerate(steps):
        if step == "push" and uid not in model:
            heap.push(uid, PODS[uid], key)
            model[uid] = (key, arrival)
        elif step == "remove":
            assert (heap.remove(uid) is None) == (model.pop(uid, None) is None)
        elif step == "rekey" and uid in model:
            heap.rekey(uid, key)
            model[uid] = (key, model[uid][1])
        elif step == "pop":
            expected = min(model, key=model.__getitem__, default=None)
            popped = heap.pop()
            assert (popped and popped.pod_info.uid) == expected
            model.pop(expected or "", None)

        order = [queued.pod_info.uid for queued in heap.in_order()]
        assert order == sorted(model, key=model.__getitem__)
        first = heap.first()
        assert (first and first.pod_info.uid) == (order[0] if order else None)
        assert len(heap) == len(model)
