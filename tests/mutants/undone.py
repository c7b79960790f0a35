"""``python -m tests.mutants.undone``: does the test of each finding fail when its fix is undone?

The list is that of docs/reliability.md ("Found and mended") and docs/security.md. Each fix is
undone by one replacement in a copy of the tree, and the test that is said to prove it must fail
then.
`tests/unit/docs/test_found.py` sees to it that texts and tests are still there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from itertools import dropwhile
from pathlib import Path
from typing import Final

import click
import msgspec

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("scheduler", "tests", "apistub", "pyproject.toml")
SECONDS: Final = 180.0
"""A test that hangs has noticed."""

HOSTILE: Final = "tests/unit/informers/test_hostile_bytes.py::"
DIRECT: Final = "tests/unit/client/test_direct.py::"
LIMITS: Final = "tests/unit/serving/test_limits.py::"
WAITS: Final = "tests/unit/engine/test_waits.py::"
INFORMERS: Final = "scheduler/daemon/informers/informer.py"


class Undone(msgspec.Struct, frozen=True):
    """A fix, and how it is undone.

    Attributes:
        finding: what was wrong.
        path: the module that has the fix.
        fix: a piece of it, found there once.
        without: what stands there without it.
        test: what must fail then.
    """

    finding: str
    path: str
    fix: str
    without: str
    test: str


FOUND: Final = (
    Undone(
        "a watch line of many MB ends the informer",
        "scheduler/daemon/client/lines.py",
        "            self._is_cut = True\n            del self._begun[self._kept_bytes :]",
        '            raise UnavailableError("watch", message="line too long")',
        f"{HOSTILE}test_a_line_that_cannot_be_read_is_one_malformed_object",
    ),
    Undone(
        "a line without an end is kept as a whole",
        "scheduler/daemon/client/lines.py",
        "            del self._begun[self._kept_bytes :]",
        "            pass",
        "tests/unit/client/test_lines.py::test_a_line_without_end_is_not_kept",
    ),
    Undone(
        "nesting, or bytes that are no UTF-8, end the informer",
        "scheduler/daemon/informers/kinds.py",
        "            return event.type, self._build(event.object)\n"
        "        except Exception as problem:",
        "            return event.type, self._build(event.object)\n"
        "        except msgspec.ValidationError as problem:",
        f"{HOSTILE}test_a_line_that_cannot_be_read_is_one_malformed_object",
    ),
    Undone(
        "a Retry-After that is no number, or has no cap",
        "scheduler/daemon/client/errors.py",
        "    return min(seconds, MAX_RETRY_AFTER_SECONDS)",
        "    return seconds",
        f"{HOSTILE}test_retry_after_is_obeyed_as_far_as_it_makes_sense",
    ),
    Undone(
        "a Retry-After of digits that are no ASCII",
        "scheduler/daemon/client/errors.py",
        "header.isascii() and header.isdigit()",
        "header.isdigit()",
        f"{HOSTILE}test_retry_after_is_obeyed_as_far_as_it_makes_sense",
    ),
    Undone(
        "a page of a list is there as a whole",
        "scheduler/daemon/informers/pages.py",
        "        end = self._held.rfind(_BETWEEN, searched) if self._can_split else -1\n",
        "        end = -1\n",
        f"{HOSTILE}test_a_list_of_large_objects_is_never_there_as_a_whole",
    ),
    Undone(
        "any JSON with status 200 is an empty list",
        "scheduler/daemon/informers/pages.py",
        "        if page.kind != wanted or not page.metadata.resource_version:",
        "        if False:",
        f"{HOSTILE}test_what_is_no_list_of_that_kind_does_not_empty_the_store",
    ),
    Undone(
        "an expired continue token leads to the same list again",
        INFORMERS,
        "            self._page_size.grow()",
        "            pass",
        "tests/unit/informers/test_informer.py::TestCourse"
        "::test_an_expired_continue_token_means_a_new_list_in_larger_pages",
    ),
    Undone(
        "a watch refused with 400 never lists again",
        INFORMERS,
        " or (is_refused and self.state is not State.EMPTY)",
        "",
        f"{HOSTILE}test_a_watch_refused_as_a_bad_request_lists_again",
    ),
    Undone(
        "readiness says nothing about a blind informer",
        INFORMERS,
        "return self.blind_since is not None and now - self.blind_since > BLIND_SECONDS",
        "return False",
        f"{HOSTILE}test_a_blind_informer_says_so",
    ),
    Undone(
        "a version that expired after an outage waits as long as the outage was",
        INFORMERS,
        "return self._anew.pause(problem.retry_after_seconds)",
        "return self._backoff.pause(problem.retry_after_seconds)",
        "tests/unit/informers/test_recovery.py::test_a_server_that_is_back_is_watched_soon",
    ),
    Undone(
        "a leader tries again only when its time is over",
        "scheduler/daemon/leader_election/election.py",
        "            due = min(due, now + left / 2)\n",
        "            pass\n",
        "tests/unit/leader_election/test_elector.py::TestElector::"
        "test_a_leader_is_renewed_by_an_api_server_that_is_back_just_before_its_end",
    ),
    Undone(
        "the lease is given back while an eviction is under way",
        "scheduler/daemon/driver/outbox.py",
        "self.binds_owed or self._changes if binds_only",
        "self.binds_owed if binds_only",
        "tests/unit/driver/test_outbox.py::"
        "test_a_drain_of_binds_waits_for_what_has_left_about_other_pods",
    ),
    Undone(
        "a lease is renewed behind the handshakes of binds",
        "scheduler/daemon/client/session.py",
        "self._requests, self._urgent = connections(), connections()",
        "self._requests = self._urgent = connections()",
        "tests/unit/client/test_session.py"
        "::test_an_urgent_request_has_a_connection_that_nobody_else_takes",
    ),
    Undone(
        "null, as Go writes it for empty lists, makes CSINodes and nodes malformed",
        "scheduler/daemon/informers/kinds.py",
        "        return msgspec.convert(without_nulls(msgspec.json.decode(raw)), decoder.type)",
        "        raise",
        "tests/unit/informers/test_parts.py::TestKinds::test_null_is_the_same_as_absent",
    ),
    Undone(
        "bytes that nobody asked for are the next answer",
        "scheduler/daemon/client/http_connection.py",
        "        if not self._is_waited_for:\n            self.abort()\n        elif",
        "        if",
        f"{DIRECT}test_a_connection_that_got_more_than_was_asked_for_is_given_up",
    ),
    Undone(
        "a body that ends with the connection is no answer",
        "scheduler/daemon/client/http_connection.py",
        "if exc is None and self._is_waited_for and self._ends_with_connection:",
        "if False:",
        f"{DIRECT}test_a_body_may_end_with_the_connection",
    ),
    Undone(
        "1xx headers are the answer",
        "scheduler/daemon/client/http_connection.py",
        "        if self._is_waited_for and self._parser.get_status_code() >= _FIRST_FINAL:",
        "        if self._is_waited_for:",
        f"{DIRECT}test_headers_of_an_interim_answer_are_not_those_of_the_answer",
    ),
    Undone(
        "101 is not handled",
        "scheduler/daemon/client/http_connection.py",
        "except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:",
        "except httptools.HttpParserError as problem:",
        f"{DIRECT}test_another_protocol_is_no_answer",
    ),
    Undone(
        "IPv6 in Host",
        "scheduler/daemon/client/direct.py",
        'url.host_port_subcomponent or ""',
        'url.host or ""',
        f"{DIRECT}test_the_host_is_named_as_http_wants_it",
    ),
    Undone(
        "the port has no limit on connections",
        "scheduler/daemon/serving/connections.py",
        "if len(self._open) < self._limit or self._make_room():",
        "if True:",
        f"{LIMITS}test_held_connections_keep_nobody_out",
    ),
    Undone(
        "the port shares all file descriptors with binds",
        "scheduler/daemon/serving/connections.py",
        "max(_LEAST, min(_MOST, descriptors // _SHARE))",
        "descriptors",
        f"{LIMITS}test_connections_leave_binds_their_descriptors",
    ),
    Undone(
        "headers may take an hour",
        "scheduler/daemon/serving/connections.py",
        "self._timer = loop.call_later(HEADER_SECONDS, self.abort)",
        "self._timer = loop.call_later(3600, self.abort)",
        f"{LIMITS}test_the_headers_of_a_request_must_come_in_time",
    ),
    Undone(
        "unlimited TokenReviews for made-up tokens",
        "scheduler/daemon/serving/limits.py",
        "asyncio.Semaphore(MAX_REVIEWS)",
        "asyncio.Semaphore(10_000)",
        f"{LIMITS}test_the_api_server_is_asked_about_so_many_at_a_time",
    ),
    Undone(
        "a log line for each stranger",
        "scheduler/daemon/serving/server.py",
        "        if held_back is None:\n            return\n",
        "",
        f"{LIMITS}test_complaints_that_strangers_cause_are_logged_now_and_then",
    ),
    Undone(
        "exec plugins that hang are never killed",
        "scheduler/daemon/client/exec_plugin.py",
        "        os.killpg(process.pid, signal.SIGKILL)",
        "        pass",
        "tests/unit/client/test_exec_plugin.py::test_a_hanging_plugin_is_killed_with_its_children",
    ),
    Undone(
        "nobody notices that a task of the port has ended",
        "scheduler/daemon/serving/server.py",
        "            if task.done():\n                return f",
        "            if False:\n                return f",
        f"{LIMITS}test_a_task_of_the_port_that_ended_is_told",
    ),
    Undone(
        "a second SIGTERM does not hurry",
        "scheduler/daemon/driver/daemon.py",
        "            self._hurried.set()\n",
        "            pass\n",
        "tests/unit/driver/test_daemon.py::test_whoever_is_told_to_stop_twice_does_not_wait",
    ),
    Undone(
        "/debug/cache compares everything in one step",
        "scheduler/kernel/cache/comparer.py",
        "            yield REST\n",
        "            pass\n",
        "tests/unit/cache/test_comparer.py::test_a_large_cluster_is_compared_in_steps",
    ),
    Undone(
        "/debug/cache builds everything in one step",
        "scheduler/observability/dumps.py",
        "            yield bytes(slice_)\n            slice_.clear()\n",
        "            pass\n",
        "tests/unit/observability/test_dumps.py::test_no_more_comes_about_than_is_asked_for",
    ),
    Undone(
        "hints over very many label sets are asked in one step",
        "scheduler/kernel/queue/waking.py",
        "QUESTIONS_AT_ONCE: Final = 256",
        "QUESTIONS_AT_ONCE: Final = 1_000_000",
        "tests/unit/queue/test_equals.py::test_very_many_groups_are_woken_bit_by_bit",
    ),
    Undone(
        "a recording goes on after a block that was lost",
        "scheduler/daemon/recording/block_writer.py",
        "            if not self.problem:\n",
        "            if True:\n",
        "tests/unit/recording/test_recording.py::"
        "test_a_disk_that_has_room_again_gets_nothing_after_a_gap",
    ),
    Undone(
        "evictions take the requests of events",
        "scheduler/daemon/driver/lanes.py",
        "others - others // FOR_EVENTS",
        "others",
        "tests/unit/driver/test_outbox.py::"
        "test_evictions_that_hang_leave_room_for_binds_and_events",
    ),
    Undone(
        "an eviction that no watch shows is not asked for again",
        "scheduler/kernel/engine/engine.py",
        "            self.preemption_executor.tick,\n",
        "",
        "tests/unit/engine/test_preemption_executor.py"
        "::test_a_victim_that_a_backup_brings_back_is_evicted_again",
    ),
    Undone(
        "a victim that was restored counts as leaving",
        "scheduler/kernel/engine/event_handlers.py",
        "            self._preemption_executor.terminating.discard(uid)\n",
        "            pass\n",
        "tests/unit/engine/test_preemption_executor.py"
        "::test_a_victim_that_a_backup_brings_back_is_evicted_again",
    ),
    Undone(
        "nobody is woken by a victim that was restored",
        "scheduler/kernel/engine/event_handlers.py",
        "if old.is_terminating and not new.is_terminating:",
        "if False:",
        "tests/unit/engine/test_preemption_executor.py"
        "::test_a_victim_that_a_backup_brings_back_is_evicted_again",
    ),
    Undone(
        "a change of a pod hides it from the round under way",
        "scheduler/kernel/queue/waking.py",
        "            self._due[group] = None\n",
        "            pass\n",
        "tests/unit/queue/test_equals.py::test_a_change_of_a_pod_does_not_hide_it_from_the_round",
    ),
    Undone(
        "ticks hold ten rows against their pods however much there is to count",
        "scheduler/kernel/engine/engine_state.py",
        "min(AUDITED_ROWS, max(1, AUDITED_COUNTS // (1 + self.snapshot.counted_classes)))",
        "AUDITED_ROWS",
        "tests/unit/engine/test_audit_cost.py"
        "::test_the_more_is_counted_the_fewer_rows_are_looked_at",
    ),
    Undone(
        "the garbage collector walks through the last minutes",
        "scheduler/daemon/recording/flight.py",
        "class _Entry(msgspec.Struct, frozen=True, gc=False):",
        "class _Entry(msgspec.Struct, frozen=True):",
        "tests/unit/engine/test_collector.py::test_pods_that_went_by_leave_nothing_to_collect",
    ),
    Undone(
        "watches go on from versions of before a backup was put back",
        INFORMERS,
        "                await self._ask_whether_set_back()",
        "                pass",
        "tests/unit/informers/test_set_back.py::test_what_never_happened_is_unlearnt",
    ),
    Undone(
        "bindings do not wait for a restore that takes long",
        "scheduler/daemon/informers/doubts.py",
        "        if self.is_away():",
        "        if False:",
        "tests/scenario/test_restored_backup.py"
        "::test_a_restore_that_takes_longer_than_bindings_wait",
    ),
    Undone(
        "a new leader decides although a request for a watch has no answer",
        INFORMERS,
        " or self.blind_since is not None:\n            self.list_again()",
        ":\n            self.list_again()",
        "tests/scenario/test_watch_faults.py::test_a_new_leader_without_a_watch_lists",
    ),
    Undone(
        "watches that show nothing and end at once go on for ever",
        INFORMERS,
        'raise GoneError(f"watch {self.kind.name}", message="watches end at once")',
        "pass",
        "tests/unit/informers/test_recovery.py"
        "::test_watches_that_show_nothing_and_end_at_once_are_no_news",
    ),
    Undone(
        "a read that the watch has overtaken changes a pod back",
        "scheduler/kernel/engine/event_handlers.py",
        "            pod = known  # the watch is ahead",
        "            pass  # the watch is ahead",
        "tests/unit/engine/test_late_answers.py"
        "::test_an_answer_that_the_watch_has_overtaken_changes_no_pod_back",
    ),
    Undone(
        "Bind plugins that take long stop all bindings",
        "scheduler/daemon/driver/outbox.py",
        "if lane is self._binds and taken.write.is_by_others:",
        "if lane is self._binds and taken.write.extender is not None:",
        "tests/unit/driver/test_lanes.py"
        "::test_plugins_that_take_long_to_bind_keep_no_other_write_waiting",
    ),
    Undone(
        "the base image is named by a tag",
        "Makefile",
        "BASED_ON = $(TAG)@$(shell ",
        "BASED_ON = $(TAG) # $(shell ",
        "tests/unit/test_deployed_security.py"
        "::test_the_image_is_based_on_a_digest_and_holds_no_shell",
    ),
    Undone(
        "whoever answers the scrape gets Prometheus' token",
        "deploy/monitoring/servicemonitor.yaml",
        "serverName: stowage-metrics.stowage.svc",
        "insecureSkipVerify: true",
        "tests/unit/test_deployed_security.py::test_the_scrapers_token_goes_to_nobody_but_stowage",
    ),
    Undone(
        "everybody reaches the port",
        "deploy/base/networkpolicy.yaml",
        "            matchLabels: {stowage.dev/metrics: enabled}",
        "            matchLabels: {}",
        "tests/unit/test_deployed_security.py::test_only_scrapers_reach_the_port",
    ),
    Undone(
        "a wait without an end: a held pod of a removed profile",
        "scheduler/kernel/engine/binding_cycle.py",
        "            permit = () if framework is None else framework.plugins.permit\n",
        "            if framework is None:\n"
        "                continue\n"
        "            permit = framework.plugins.permit\n",
        f"{WAITS}test_a_held_pod_of_a_removed_profile_gives_its_place_back",
    ),
    Undone(
        "a wait without an end: for the binding of a pod that joined a gang",
        "scheduler/kernel/groups/pod_groups.py",
        "        elif new.uid in self._assumed:\n",
        "        elif new.uid in self._assumed and old.group_name:\n",
        f"{WAITS}test_a_pod_that_joins_a_gang_counts_with_its_place",
    ),
    Undone(
        "a wait without an end: for an extender's answer about an equal pod",
        "scheduler/kernel/engine/pending_extender_calls.py",
        "        core.queue.is_not_rejected(attempt.pod.uid)\n",
        "",
        f"{WAITS}test_equal_pods_do_not_wait_for_the_answer_about_one_of_them",
    ),
    Undone(
        "a wait without an end: a pod whose write fails while it is in flight",
        "scheduler/kernel/queue/scheduling_queue.py",
        "            self.activate((uid,))\n",
        "            pass\n",
        "tests/unit/queue/test_scheduling_queue.py"
        "::test_a_pod_in_flight_that_is_to_be_tried_again_is",
    ),
    Undone(
        "a wait without an end: devices of a claim that no watch ever shows",
        "scheduler/kernel/plugins/claim_binding.py",
        "            raise ClaimWriteError("
        'f"claim {claim.key} for extended resources is not seen allocated")\n',
        "            pass\n",
        "tests/unit/plugins/test_dynamic_resources.py"
        "::test_a_pod_is_not_bound_if_no_watch_shows_the_allocation_of_a_claim_that_was_made",
    ),
    Undone(
        "a wait without an end: a volume whose reservation a restore has undone",
        "scheduler/daemon/informers/kinds.py",
        "(RESOURCE_CLAIMS, VOLUME_CLAIMS, VOLUMES)\n",
        "(RESOURCE_CLAIMS,)\n",
        "tests/scenario/test_restored_backup.py"
        "::test_a_volume_whose_reservation_is_lost_before_any_watch_shows_it_is_free",
    ),
)


def copied(target: Path) -> None:
    """The tree, in which fixes can be undone."""
    for name in (*COPIED, *sorted({Path(each.path).parts[0] for each in FOUND} - set(COPIED))):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    for name in ("Dockerfile", "Makefile", "requirements.lock"):
        shutil.copy(ROOT / name, target / name)


def passes(tree: Path, *tests: str) -> bool:
    """Whether tests pass in a copy, in time."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    # What is installed is the original: the copy must be found first.
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *dict.fromkeys(tests)],
            cwd=tree,
            env=env,
            capture_output=True,
            timeout=SECONDS * len(tests),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode:
        print(*done.stdout.decode().splitlines()[-2:], sep="\n")
    return done.returncode == 0


@click.command()
@click.option("--only", default="", help="Findings in whose text this is.")
@click.option("--since", default="", help="From the first finding on in whose text this is.")
def main(only: str, since: str) -> None:
    """Undo each fix, and end with 1 when a test does not notice."""
    missed = 0
    later = dropwhile(lambda each: since not in each.finding, FOUND)
    chosen = [each for each in later if only in each.finding]
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        copied(tree)
        if not passes(tree, *(each.test for each in chosen)):
            sys.exit("a test fails (or takes too long) although nothing was undone")
        for each in chosen:
            target = tree / each.path
            whole = target.read_text()
            target.write_text(whole.replace(each.fix, each.without))
            noticed = not passes(tree, each.test)
            target.write_text(whole)
            missed += not noticed
            print(f"{'noticed' if noticed else 'MISSED '}  {each.finding}", flush=True)
    raise SystemExit(int(bool(missed)))


if __name__ == "__main__":
    main()
