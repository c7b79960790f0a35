"""Finds the rules of a pod that each node violates, to drop the fewest rules."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.answers.edits import DropRule
from scheduler.kernel.answers.rules import Rule, requirements_of, without_rules
from scheduler.kernel.answers.trials import Trials
from scheduler.kernel.plugins.label_obstacles import satisfied
from scheduler.kernel.snapshot import Indices


def likely_sets(rules: Sequence[Rule], trials: Trials) -> Iterator[tuple[DropRule, ...] | None]:
    """Yield the sets of rules that nodes violate, the smallest sets first; None between two trials.

    Each rule is checked alone. So dropping a set makes a node feasible if rules do not depend on
    each other; a trial must confirm it.

    Cost: a trial for each rule about other pods.
    """
    spec, table = trials.pod.spec, trials.snapshot.table
    paths = {rule.drop.path for rule in rules}
    rows = trials.rows(without_rules(spec, paths))
    if not len(rows):
        return
    violated = np.zeros((len(rules), table.size), np.bool_)
    of_terms: dict[int, list[int]] = {}
    requirements = requirements_of(spec)
    for i, rule in enumerate(rules):
        yield None
        known = requirements.get(rule.drop.path)
        if known is None:
            violated[i] = True
            violated[i][trials.rows(without_rules(spec, paths - {rule.drop.path}))] = False
        else:
            number, term = known
            violated[i] = ~satisfied(term, trials.snapshot)
            if number is not None:
                of_terms.setdefault(number, []).append(i)
    _keep_least_violated_term(violated, list(of_terms.values()))
    sets = np.unique(violated[:, rows], axis=1).T
    for chosen in sets[np.argsort(sets.sum(axis=1), kind="stable")]:
        yield tuple(rules[i].drop for i in np.flatnonzero(chosen).tolist())


def _keep_least_violated_term(violated: NDArray[np.bool_], terms: Sequence[Sequence[int]]) -> None:
    """Keep for each row only the violations of the alternative term that it violates least."""
    if len(terms) > 1:
        counts = np.array([violated[list(term)].sum(axis=0) for term in terms])
        best: Indices = counts.argmin(axis=0)
        for number, term in enumerate(terms):
            violated[list(term)] &= best == number
