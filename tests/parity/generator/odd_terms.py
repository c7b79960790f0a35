"""Terms and selectors that few pods have: empty, contradicting, beyond numbers, about nothing."""

from tests.parity.generator.draw import HOSTNAME, NAMESPACES, TOPOLOGY_KEYS, Draw, Object


def odd_node_terms(draw: Draw, pod: Object) -> None:
    """Compare with what is no number, name no value, or select by nothing."""
    expressions: list[Object] = [
        {"key": "rank", "operator": "Gt", "values": [""]},
        {"key": "rank", "operator": "Lt", "values": ["x"]},
        {"key": "rank", "operator": "Gt", "values": ["1e1"]},
        {"key": "rank", "operator": "Lt", "values": ["9" * 25]},
        {"key": "rank", "operator": "Gt", "values": ["0x3"]},
        {"key": "rank", "operator": "Gt", "values": ["00"]},
        {"key": "rack", "operator": "In", "values": [""]},
        {"key": "rack", "operator": "NotIn", "values": [""]},
        {"key": "disk", "operator": "In", "values": ["ssd", "ssd"]},
        {"key": HOSTNAME, "operator": "Exists", "values": []},
        {"key": "node.kubernetes.io/a.b_c", "operator": "DoesNotExist"},
    ]
    fields: list[Object] = [
        {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
        {"key": "metadata.name", "operator": "In", "values": ["n2"]},
        {"key": "metadata.name", "operator": "In", "values": ["n1.example.com"]},
    ]
    terms: list[Object] = [
        {},
        {"matchExpressions": [], "matchFields": []},
        *({"matchExpressions": draw.some(expressions, 1, 2)} for _ in range(3)),
        {"matchFields": draw.some(fields, 1, 2)},
        {"matchFields": draw.some(fields, 1, 1), "matchExpressions": draw.some(expressions, 1, 1)},
    ]
    preferred: list[Object] = [
        {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["-5"]}]},
        {"matchExpressions": [{"key": "rank", "operator": "Lt", "values": ["+50"]}]},
        {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["no such/value"]}]},
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "s" * 64]}]},
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "s" * 63]}]},
    ]
    affinity: Object = {}
    if draw.maybe(0.7):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": draw.some(terms, 1, 3)
        }
    if draw.maybe(0.6):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draw.pick((1, 100)), "preference": term}
            for term in draw.some((*terms, *preferred), 1, 3)
        ]
    pod["spec"].setdefault("affinity", {})["nodeAffinity"] = affinity
    if draw.maybe(0.2):
        pod["spec"]["nodeSelector"] = draw.pick(({}, {"rack": ""}, {"absent": ""}))


def odd_selector(draw: Draw) -> Object | None:
    """Make a label selector, or none at all."""
    return draw.pick(
        (
            None,
            {},
            {"matchLabels": {}},
            {"matchExpressions": []},
            {"matchLabels": {"app": ""}},
            {"matchLabels": {"app": "a"}, "matchExpressions": [_in("app", ["a"])]},
            {"matchLabels": {"app": "a"}, "matchExpressions": [_in("app", ["b"])]},
            {"matchExpressions": [_in("app", ["a", "a", ""])]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [""]}]},
            {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
            {"matchExpressions": [_in("app", ["a", "b"]), {"key": "ver", "operator": "Exists"}]},
        )
    )


def _in(key: str, values: list[str]) -> Object:
    return {"key": key, "operator": "In", "values": values}


def odd_spread(draw: Draw, pod: Object) -> None:
    """Give constraints with huge skews, absent keys and odd selectors, or an empty list."""
    found: dict[tuple[str, str], Object] = {}
    for _ in range(draw.pick((1, 2, 5))):
        key = draw.pick((*TOPOLOGY_KEYS, "absent", "example.com/tier"))
        action = draw.pick(("DoNotSchedule", "ScheduleAnyway"))
        constraint: Object = {
            "maxSkew": draw.pick((1, 2, 100, 2**31 - 1)),
            "topologyKey": key,
            "whenUnsatisfiable": action,
        }
        selector = odd_selector(draw)
        if selector is not None:
            constraint["labelSelector"] = selector
            if draw.maybe(0.3) and "ver" not in str(selector):
                constraint["matchLabelKeys"] = ["ver"]
        if action == "DoNotSchedule" and draw.maybe(0.4):
            constraint["minDomains"] = draw.pick((1, 9, 2**31 - 1))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if draw.maybe(0.3):
                constraint[policy] = draw.pick(("Honor", "Ignore"))
        found[key, action] = constraint
    pod["spec"]["topologySpreadConstraints"] = draw.pick((list(found.values()), []))


def odd_affinity(draw: Draw, pod: Object) -> None:
    """Give terms about other pods whose lists and selectors may be empty."""
    affinity = pod["spec"].setdefault("affinity", {})
    for kind in draw.some(("podAffinity", "podAntiAffinity"), 1, 2):
        part: Object = {}
        if draw.maybe(0.6):
            part["requiredDuringSchedulingIgnoredDuringExecution"] = [
                _odd_affinity_term(draw) for _ in range(draw.pick((0, 1, 2)))
            ]
        if draw.maybe(0.5):
            part["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": draw.pick((1, 100)), "podAffinityTerm": _odd_affinity_term(draw)}
                for _ in range(draw.pick((0, 1, 3)))
            ]
        affinity[kind] = part


def _odd_affinity_term(draw: Draw) -> Object:
    term: Object = {"topologyKey": draw.pick((*TOPOLOGY_KEYS, "absent"))}
    selector = odd_selector(draw)
    if selector is not None:
        term["labelSelector"] = selector
        keys = [key for key in ("ver", "tier", "absent") if key not in str(selector)]
        if draw.maybe(0.2):
            term[draw.pick(("matchLabelKeys", "mismatchLabelKeys"))] = draw.some(keys, 0, 2)
    if draw.maybe(0.4):
        term["namespaces"] = draw.pick(([], ["default", "default"], list(NAMESPACES), ["gone"]))
    if draw.maybe(0.4):
        name = "kubernetes.io/metadata.name"
        term["namespaceSelector"] = draw.pick(
            (
                {},
                {"matchLabels": {}},
                {"matchLabels": {name: draw.pick(NAMESPACES)}},
                {"matchExpressions": [{**_in(name, ["default"]), "operator": "NotIn"}]},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "env", "operator": "Exists"}]},
            )
        )
    return term
