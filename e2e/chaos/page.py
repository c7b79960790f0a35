"""Formats the results table of a run, for the terminal and docs/reliability.md."""

import re
from collections import Counter

from e2e.chaos.harness import Report
from e2e.support.go_programs import CHECKOUT

CHECKOUT_PAGE = CHECKOUT / "docs" / "reliability.md"


def table(report: Report) -> str:
    """Return one line per fault, then the invariants and the resource usage."""
    lines = [
        "| fault | injected | recovery p50 | max | pods lost |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {count} | {p50:.1f} s | {most:.1f} s | {lost} |"
            for name, count, p50, most, lost in report.rows()
        ),
        "",
        _summary(report),
        "",
        *_broken(report),
    ]
    return "\n".join(lines)


def write(report: Report, command: str) -> None:
    """Write the table between the page's markers for this scheduler."""
    begin, end = f"<!-- drawn: {report.kind} -->", f"<!-- end: {report.kind} -->"
    text = CHECKOUT_PAGE.read_text()
    drawn = f"{begin}\n`{command}`\n\n{table(report)}\n{end}"
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    found = re.sub(pattern, lambda _: drawn, text, flags=re.DOTALL)
    CHECKOUT_PAGE.write_text(found)


def _summary(report: Report) -> str:
    return (
        f"{len(report.injections)} injections in {report.seconds / 60:.0f} minutes, "
        f"{report.bindings:,} bindings, {report.whole_gangs} whole gangs, "
        f"{report.evictions} evictions "
        f"({report.repeated_evictions} asked for again because the answer was lost), "
        f"{report.restarts} restarts of replicas. In vain a replica asked or connected at "
        f"most {report.most_requests} times in a second. {'; '.join(report.resources)}."
        f"{_recordings(report)}"
    )


def _recordings(report: Report) -> str:
    if not report.recordings:
        return ""
    events = sum(each.events for each in report.recordings)
    cut_off = sum(each.is_cut_off for each in report.recordings)
    return (
        f" {len(report.recordings)} recordings ({cut_off} of them cut off in the middle of a block "
        f"when their process was killed) were replayed: {events:,} events answered byte for byte."
    )


def _broken(report: Report) -> list[str]:
    if not report.violations:
        return ["Broken promises: none."]
    counts = Counter(each.promise for each in report.violations)
    return [f"Broken promises: {'; '.join(f'{p} ({n})' for p, n in counts.items())}."]
