"""Faults that once were planted and noticed by no test, and the test that notices each now.

`make mutants ROOM=named` plants them all. The table of docs/testing.md is drawn from here.
"""

from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]


class NamedFault(msgspec.Struct, frozen=True):
    """A fault as a change of text.

    Attributes:
        what: what goes wrong with it, for people.
        where: the module below `scheduler/`, without `.py`.
        old: what stands there, once.
        new: what is planted instead.
        test: the test that notices it.
    """

    what: str
    where: str
    old: str
    new: str
    test: str

    @property
    def module(self) -> Path:
        """The module, relative to the root."""
        return Path("scheduler", f"{self.where}.py")

    def planted(self) -> str:
        """The module with the fault in it."""
        return (ROOT / self.module).read_text().replace(self.old, self.new)


_BUDGETS: Final = "tests/unit/preemption/test_budgets.py::"
_CANCELLED: Final = "tests/unit/engine/test_cancelled_pre_bind.py::"
_CHANGES: Final = "tests/unit/engine/test_event_handlers.py::"
_CLAIMS: Final = "tests/unit/engine/test_claims.py::"
_CYCLES: Final = "tests/unit/engine/test_cycles.py::"
_HOLDING: Final = "tests/unit/engine/test_holding.py::"
_TAKEN_BACK: Final = "tests/unit/engine/test_victims_taken_back.py::"
_WAYS: Final = "tests/unit/engine/test_ways.py::"
_DEVICES: Final = "tests/scenario/test_devices.py::"
_DIRECTED: Final = "tests/unit/engine/test_directed_waiting.py::"
_DRIVER: Final = "tests/unit/driver/test_driver.py::"
_OUTBOX: Final = "tests/unit/driver/test_outbox.py::"
_TOGETHER: Final = "tests/unit/bootstrap/test_daemon.py::"
_ENGINE_OF: Final = "tests/unit/bootstrap/test_engine.py::"
_ELECTOR: Final = "tests/unit/leader_election/test_elector.py::TestElector::"
_PAUSES: Final = "tests/unit/informers/test_pauses.py::"

_EXPRESSIONS: Final = "tests/unit/cel/test_upstream_ways.py::"
_CONFIGURING: Final = "tests/unit/operator/test_configuring.py::"
_RECONCILING: Final = "tests/unit/operator/test_reconciler.py::"

FAULTS: Final = (
    NamedFault(
        "A team's profile switches taints off.",
        "operator/permissions",
        "if chosen and point not in POINTS:",
        "if not chosen and point not in POINTS:",
        f"{_CONFIGURING}test_a_team_ranks_nodes_and_lets_in_none",
    ),
    NamedFault(
        "The operator takes over what another controller has.",
        "operator/ownership",
        'if controller.get("uid") == scheduler.metadata.uid:',
        "if True:",
        f"{_RECONCILING}test_what_is_foreign_is_neither_changed_nor_given_rights",
    ),
    NamedFault(
        "A deeply nested profile ends the operator.",
        "operator/cluster",
        "found.append(read_object(raw, kind))",
        "found.append(msgspec.json.decode(raw.raw, type=kind))",
        "tests/unit/operator/test_cluster.py::test_an_object_that_no_decoder_takes_hides_nothing",
    ),
    NamedFault(
        "A reconcile that raises ends the operator.",
        "operator/reconciler",
        "except Exception as problem:  # noqa: BLE001 - the next reconcile may succeed",
        "except ApiError as problem:",
        f"{_RECONCILING}test_a_reconcile_that_raises_is_logged_and_repeated_later_and_later",
    ),
    NamedFault(
        "A profile without the default plugins binds members of pod groups one by one.",
        "daemon/bootstrap/frameworks",
        "if each.NAME not in named}",
        "if each.NAME in named}",
        "tests/scenario/test_placing.py::test_a_member_of_a_pod_group_waits_and_says_why",
    ),
    NamedFault(
        "certificates that come inline are written to a disk",
        "memory_file",
        '    if sys.platform == "linux":\n',
        '    if sys.platform == "nowhere":\n',
        "tests/unit/test_memory_file.py::test_it_has_no_name",
    ),
    NamedFault(
        "a kubeconfig takes a home",
        "daemon/client/connection",
        '        os.environ["HOME"] = os.sep\n',
        "        pass\n",
        "tests/scenario/test_read_only.py::test_certificates_of_a_kubeconfig_stay_in_memory",
    ),
    NamedFault(
        "a daemon takes a directory that is writable",
        "daemon/bootstrap/recording",
        "    except FileNotFoundError:\n",
        "    except KeyError:\n",
        "tests/unit/bootstrap/test_crash.py::test_without_a_directory_that_is_writable",
    ),
    NamedFault(
        "a start that fails leaves a session open",
        "daemon/client/session",
        '            "Accept-Encoding": "identity",\n        }\n',
        '            "Accept-Encoding": "identity",\n        }\n        self._session.headers\n',
        "tests/scenario/test_failing_starts.py::test_why_it_does_not_start",
    ),
    NamedFault(
        "`kubectl label` on a running pod leaves counts stale",
        "kernel/cache/cache",
        "            if info.node is not None:\n                alike = old.kind is pod.kind\n",
        "            if info.node is not None:\n                alike = True\n",
        _CHANGES + "test_relabelling_a_running_pod_changes_the_counts",
    ),
    NamedFault(
        "a pod that begins to end still counts among the living",
        "kernel/cache/cache",
        "        and old.is_terminating == new.is_terminating\n",
        "",
        _CHANGES + "test_a_pod_that_begins_to_end_no_longer_counts_among_the_living",
    ),
    NamedFault(
        "the end of a pod leaves its room taken",
        "kernel/cache/cache",
        "            self._note(PodRemoved(pod))\n        elif",
        "            pass\n        elif",
        _CHANGES + "test_a_pod_that_ends_gives_its_room_back",
    ),
    NamedFault(
        "a change log that was trimmed, after 8,192 changes, gives stale rows",
        "kernel/snapshot/changes",
        "        if start < 0:\n            return None\n",
        "",
        "tests/unit/snapshot/test_amounts.py::test_a_log_that_was_trimmed_says_so",
    ),
    NamedFault(
        "scheduling stops for good after so many binds",
        "daemon/driver/lanes",
        "            self.under_way.discard(taken.key)\n",
        "            pass\n",
        _DRIVER + "test_scheduling_goes_on_after_a_debt_of_events",
    ),
    NamedFault(
        "scheduling stops for good after a debt of events",
        "daemon/driver/driver",
        "        if not self._ready.is_set() and self.outbox.has_room_again:\n"
        "            self._ready.set()\n",
        "        pass\n",
        _DRIVER + "test_scheduling_goes_on_after_a_debt_of_events",
    ),
    NamedFault(
        "a failed bind wakes no pod",
        "kernel/engine/scheduling_failure",
        "        if freed and not failure.is_rejection:\n            self._free(attempt)\n",
        "",
        _WAYS + "test_a_refused_binding_gives_everything_back",
    ),
    NamedFault(
        "a deleted assumed pod wakes no pod",
        "kernel/engine/scheduling_failure",
        "        if freed:\n            self._free(attempt)\n\n    def guarded",
        "\n    def guarded",
        _WAYS + "test_deleted",
    ),
    NamedFault(
        "a withdrawn nomination wakes no pod",
        "kernel/engine/event_handlers",
        '            self._core.queue.free_nomination(old, but="" if is_displaced else new.uid)\n',
        "            pass\n",
        _CHANGES + "test_the_end_of_a_nomination_wakes_who_is_not_more_important",
    ),
    NamedFault(
        "a deleted nominated pod wakes no pod",
        "kernel/queue/scheduling_queue",
        "            self.free_nomination(nominated)\n",
        "            pass\n",
        _CHANGES + "test_the_end_of_a_nomination_wakes_who_is_not_more_important",
    ),
    NamedFault(
        "a changed Service wakes no pod",
        "kernel/engine/other_event_handlers",
        "        event = self._added if old is None else self._updated\n"
        "        self._wake(event, old, new)\n",
        "",
        _CHANGES + "test_a_change_of_a_service_wakes_who_waits_for_it",
    ),
    NamedFault(
        "a deleted node wakes no pod",
        "kernel/engine/event_handlers",
        "            wake(core, NODE_DELETE, node, None)\n",
        "",
        _CHANGES + "test_a_change_of_a_node_wakes_who_waits_for_it",
    ),
    NamedFault(
        "an unexpected error in a cycle loses the pod",
        "kernel/engine/scheduling_failure",
        "        failure = self._core.failure(attempt.pod.key, problem)\n"
        "        self.handle_scheduling_failure(attempt, failure)\n",
        "        self._core.failure(attempt.pod.key, problem)\n",
        _WAYS + "test_an_unexpected_error_does_not_lose_the_pod",
    ),
    NamedFault(
        "a cancelled PreBind gives back its reservations before it has ended",
        "kernel/engine/scheduling_failure",
        "        if attempt.state is AttemptState.PREBINDING:\n",
        "        if attempt.state is AttemptState.BOUND:\n",
        _CANCELLED + "test_the_latest_version_counts_when_it_has_ended",
    ),
    NamedFault(
        "a preemptor is not tried again when its victim was bound while PreBind was cancelled",
        "kernel/engine/scheduling_failure",
        "        return Acquired.ROOM in acquired\n",
        "        return Acquired.ROOM in acquired and pod.uid not in core.cache.pods\n",
        _TAKEN_BACK + "test_a_victim_that_was_bound_to_its_node_is_evicted",
    ),
    NamedFault(
        "a deleted pod cancels the write of its devices",
        "kernel/plugins/claim_binding",
        "await self._handle.api.run_to_end(writing)",
        "await writing",
        _DEVICES + "test_a_deleted_pod_gives_no_device_twice",
    ),
    NamedFault(
        "a deleted pod gives its reservation back before its controller",
        "kernel/engine/scheduling_failure",
        "        if not is_retried:\n",
        "        if False:\n",
        _DEVICES + "test_the_reservation_of_a_deleted_pod_is_left_to_the_controller",
    ),
    NamedFault(
        "a failed binding removes the last reservation of a claim",
        "kernel/plugins/dynamic_resources",
        "                and catalog.leave(known, pod)\n",
        "",
        "tests/unit/plugins/test_dynamic_resources.py::test_the_last_reservation_stays",
    ),
    NamedFault(
        "pods whose bindings fail at the same moment remove all reservations of a claim",
        "kernel/devices/claim_catalog",
        "        self._leaving[claim.metadata.uid] = {*leaving, pod.uid}\n",
        "",
        "tests/unit/plugins/test_dynamic_resources.py::test_the_last_reservation_stays_of_several",
    ),
    NamedFault(
        "a pod that the API server does not find to bind is tried again",
        "daemon/driver/write_requests",
        "problem.is_certain and not isinstance(problem, NotFoundError)",
        "problem.is_certain",
        _DEVICES + "test_the_reservation_of_a_pod_that_ends_unseen_is_left_to_the_controller",
    ),
    NamedFault(
        "a pod whose deletion only a read shows is tried again",
        "kernel/engine/binding_cycle",
        "        if pod.is_terminating:\n",
        "        if False:\n",
        _DEVICES + "test_the_reservation_of_a_pod_that_ends_unseen_is_left_to_the_controller",
    ),
    NamedFault(
        "a pod waits for a write that was refused",
        "kernel/engine/scheduling_failure",
        "        core.queue.try_again(uid)\n",
        "",
        _DEVICES + "test_a_claim_is_freed_again_after_a_refusal",
    ),
    NamedFault(
        "a plugin's error in a cycle loses the pod",
        "kernel/engine/scheduling_failure",
        "        failure = self._core.failure(attempt.pod.key, problem)\n"
        "        self.handle_scheduling_failure(attempt, failure)\n",
        "        pass\n",
        _CYCLES + "test_an_error_at_any_point",
    ),
    NamedFault(
        "an unexpected error in a binding loses the pod",
        "daemon/driver/driver",
        "            self.submit(PreBound(attempt_id, str(problem)))\n",
        "            pass\n",
        _DRIVER + "test_pre_bind_that_fails_says_why",
    ),
    NamedFault(
        "an assumed pod stays nominated",
        "kernel/engine/placing",
        "        core.queue.found_place(pod.uid, node_name)\n",
        "",
        _CHANGES + "test_an_assumed_pod_is_no_longer_nominated",
    ),
    NamedFault(
        "the wrong node through the cached totals: the lowest instead of the highest",
        "kernel/framework/runtime/ranking",
        "                self._best[0] = total.max(initial=INFEASIBLE_TOTAL)\n",
        "                self._best[0] = total.min(initial=100_000.0)\n",
        "tests/unit/engine/test_algorithm.py::test_the_highest_total_wins",
    ),
    NamedFault(
        "the wrong node through the cached totals: used although a plugin scores the cluster",
        "kernel/framework/runtime/scoring",
        "        if adding:\n",
        "        if False:\n",
        "tests/parity/test_recorded.py::test_the_daemons_own_choice_has_the_highest_total",
    ),
    NamedFault(
        "the daemon binds without the fence",
        "daemon/bootstrap/daemon",
        "            self._session, "
        "fence=None if self._elector is None else self._elector.may_write\n",
        "            self._session, fence=None\n",
        "tests/unit/bootstrap/test_fence.py",
    ),
    NamedFault(
        "release overwrites the lease of another",
        "daemon/leader_election/elector",
        "                if lease is not None and lease.spec.holder_identity == self.identity:\n",
        "                if lease is not None:\n",
        _ELECTOR + "test_a_lease_that_another_has_by_now_is_not_released",
    ),
    NamedFault(
        "a lost lease is given back right after a write",
        "daemon/leader_election/elector",
        "        if since < settings.lease_duration_seconds - settings.renew_deadline_seconds:\n",
        "        if False:\n",
        _ELECTOR + "test_a_lost_lease_is_released_when_the_last_write_left_long_ago",
    ),
    NamedFault(
        "a lost lease is given back while a write is under way",
        "daemon/driver/daemon",
        "        if self._driver.outbox.awaits_answers:\n",
        "        if False:\n",
        "tests/unit/driver/test_lost_lease.py",
    ),
    NamedFault(
        "a claim under way at the end is left to run out",
        "daemon/leader_election/elector",
        "        if not self._has_claimed:\n",
        "        if self._election.holder != self.identity:\n",
        _ELECTOR + "test_a_claim_under_way_at_the_end_is_given_back",
    ),
    NamedFault(
        "malformed requests fill the log",
        "daemon/serving/server",
        "            held_back = self._malformed_throttle.take()\n",
        "            held_back = 0\n",
        "tests/unit/serving/test_limits.py::test_malformed_requests_are_one_line_without_a_trace",
    ),
    NamedFault(
        "a disk that hangs holds the loop up",
        "daemon/recording/directory",
        "self._blocks.put(written, WAIT_SECONDS)",
        "self._blocks.put(written, 60.0)",
        "tests/unit/recording/test_recording.py::"
        "test_a_disk_that_hangs_ends_the_recording_and_holds_nothing_up",
    ),
    NamedFault(
        "a deleted lease makes two leaders for longer than a retry period",
        "daemon/leader_election/elector",
        "            await self._look(lock, timeout)\n            raise\n",
        "            raise\n",
        _ELECTOR + "test_a_leader_learns_of_a_new_one_at_its_next_renewal",
    ),
    NamedFault(
        "a suspended machine wakes up as the leader",
        "daemon/leader_election/elector",
        "        return self._election.is_leading(self._clock.boot())\n",
        "        return self._election.is_leading(self._clock.monotonic())\n",
        _ELECTOR + "test_a_frozen_leader_knows_at_once_that_its_time_is_over",
    ),
    NamedFault(
        "the lease is renewed for a loop that stands still for ever",
        "daemon/leader_election/elector",
        "        if not is_stalled:\n",
        "        if True:\n",
        "tests/unit/leader_election/test_campaign.py::test_a_step_of_a_minute_costs_the_lease",
    ),
    NamedFault(
        "the lease rides on the longest step",
        "daemon/leader_election/campaign",
        "        loop = asyncio.new_event_loop()\n",
        "        async with self._open_lock(home) as lock:\n"
        "            return await in_this_loop(lock, self._clock, campaign)\n"
        "        loop = asyncio.new_event_loop()\n",
        "tests/unit/leader_election/test_campaign.py::"
        "test_the_thread_goes_on_while_the_main_loop_computes_and_sees_that_it_does",
    ),
    NamedFault(
        "equal pods share a rejection although the cluster has changed",
        "kernel/queue/queued_pods",
        "        if rejection is None or rejection.version != version():\n",
        "        if rejection is None:\n",
        _DIRECTED + "test_a_new_pod_after_an_event_that_no_hint_takes",
    ),
    NamedFault(
        "equal pods share a rejection for longer than five minutes",
        "kernel/queue/queued_pods",
        "        return rejection if not is_late and self._shares_rejections(queued) else None\n",
        "        return rejection if self._shares_rejections(queued) else None\n",
        "tests/unit/queue/test_equals.py::test_a_rejection_holds_for_five_minutes_only",
    ),
    NamedFault(
        "what is no change of the cluster's version: a pod that is added",
        "kernel/cache/cache",
        "            self._note(PodAdded(pod))\n",
        "            self.changes.append(PodAdded(pod))\n",
        _DIRECTED + "test_a_new_pod_has_a_node_at_once",
    ),
    NamedFault(
        "a change of a waiting pod puts its deadline off",
        "kernel/queue/unschedulable_pods",
        "        self.deadlines.set(uid, deadline)\n",
        "        self.deadlines.set(uid, deadline + 300.0)\n",
        "tests/unit/queue/test_equals.py::test_a_change_of_a_pod_leaves_its_deadline",
    ),
    NamedFault(
        "no five-minute flush",
        "kernel/engine/engine",
        "            core.queue.flush_unschedulable_leftover,\n",
        "",
        _CHANGES + "test_a_pod_that_nothing_wakes_is_tried_after_five_minutes",
    ),
    NamedFault(
        "the setting of the flush has no effect",
        "daemon/bootstrap/daemon",
        "            max_in_unschedulable_seconds="
        "self._options.pod_max_in_unschedulable_pods_duration,\n",
        "",
        _TOGETHER + "test_the_time_in_unschedulable_is_as_told",
    ),
    NamedFault(
        "the settings of back-off have no effect",
        "daemon/bootstrap/engine",
        "BackoffSettings(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds)",
        "BackoffSettings()",
        _ENGINE_OF + "test_back_off_is_as_configured",
    ),
    NamedFault(
        "qps has no effect",
        "daemon/bootstrap/daemon",
        "            qps=max(0.0, connection_config.qps),\n",
        "",
        _TOGETHER + "test_requests_are_limited_as_configured",
    ),
    NamedFault(
        "burst has no effect",
        "daemon/bootstrap/daemon",
        "            burst=connection_config.burst,\n",
        "",
        _TOGETHER + "test_requests_are_limited_as_configured",
    ),
    NamedFault(
        "credentials are never renewed",
        "daemon/bootstrap/daemon",
        "                [renewing, self.reloader.follow(), ",
        "                [self.reloader.follow(), ",
        "tests/scenario/test_life.py::test_credentials_are_renewed_when_they_are_refused",
    ),
    NamedFault(
        "the election's watchdog is not in /healthz",
        "daemon/serving/health",
        '        "healthz": {**watchdog},\n',
        '        "healthz": {},\n',
        "tests/unit/serving/test_endpoints.py::test_health",
    ),
    NamedFault(
        "the health checks do not hear of the election",
        "daemon/bootstrap/daemon",
        "                leader_election=None if elector is None else elector.check_healthy,\n",
        "                leader_election=None,\n",
        "tests/scenario/test_life.py::test_health_is_that_of_the_daemon",
    ),
    NamedFault(
        "an informer's back-off never recovers",
        "daemon/informers/informer",
        "            self._reports.all_is_well()\n            self._reset_pauses()\n",
        "            self._reports.all_is_well()\n",
        _PAUSES + "test_what_comes_through_ends_the_back_off",
    ),
    NamedFault(
        "an informer's back-off never recovers from watches that end as they should",
        "daemon/informers/informer",
        "            return self._backoff.pause()\n        self._reset_pauses()\n",
        "            return self._backoff.pause()\n",
        _PAUSES + "test_a_watch_that_lasted_ends_the_back_off",
    ),
    NamedFault(
        "a server that always says 401 makes a hot loop of lists",
        "daemon/informers/informer",
        "        pause = self._backoff.pause(problem.retry_after_seconds)\n"
        "        self._reports.failed(str(problem), pause, is_answer=problem.status > 0)\n",
        "        pause = 0.0 if problem.status == 401 else "
        "self._backoff.pause(problem.retry_after_seconds)\n"
        "        self._reports.failed(str(problem), pause, is_answer=problem.status > 0)\n",
        _PAUSES + "test_who_is_always_refused_asks_less_and_less",
    ),
    NamedFault(
        "a server that always says 401 makes a hot loop of renewals",
        "daemon/client/connection",
        "                await asyncio.sleep(min(_REFUSED_PAUSE_SECONDS, interval_seconds))\n",
        "",
        "tests/unit/client/test_connection.py::TestFreshness::"
        "test_who_is_always_refused_renews_now_and_then",
    ),
    NamedFault(
        "a right to GET is used for DELETE",
        "daemon/serving/authorization",
        "        question = repr((user, path, verb)).encode()\n",
        "        question = repr((user, path)).encode()\n",
        "tests/unit/serving/test_limits.py::test_a_right_to_look_is_none_to_change",
    ),
    NamedFault(
        "a fenced patch kills its worker",
        "daemon/client/status_tries",
        "        except RequestError as problem:\n",
        "        except OSError as problem:\n",
        _OUTBOX + "test_fenced_writes_end_no_worker",
    ),
    NamedFault(
        "a PostBind that raises undoes a pod that is bound",
        "kernel/engine/binding_cycle",
        '                core.report("PostBind failed", pod.key, problem)\n',
        "                failure = Failure(str(problem))\n"
        "                self._failures.handle_scheduling_failure(attempt, failure)\n",
        _WAYS + "test_post_bind_that_raises_undoes_nothing",
    ),
    NamedFault(
        "the end of a large group in Permit is one long step",
        "kernel/engine/engine",
        "        while self._inbox or (settled and turns):\n",
        "        while self._inbox or settled:\n",
        _HOLDING + "test_the_end_of_a_large_group_is_no_long_step",
    ),
    NamedFault(
        "a pod of a group is turned away by each of the others",
        "kernel/engine/held",
        "        if is_held or uid == self.deciding:\n",
        "        if True:\n",
        _HOLDING + "test_what_is_said_about_pods_that_are_not_held_is_nothing",
    ),
    NamedFault(
        "all events are kept as long as any pod is held",
        "kernel/queue/active",
        "        while len(self._events) > MAX_EVENTS:\n",
        "        while False:\n",
        "tests/unit/queue/test_in_flight.py::test_after_very_many_events_no_hint_is_asked",
    ),
    NamedFault(
        "a changed status of a budget has all budgets of its namespace compared again",
        "kernel/preemption/budgets",
        "    return one is other or one.selector == other.selector\n",
        "    return one is other\n",
        _BUDGETS + "test_a_changed_status_compares_nothing_again",
    ),
    NamedFault(
        "preemption never ends once all pods that it ranked have changed",
        "kernel/preemption/importance",
        "np.zeros((3, max(_MIN_PODS, len(self._pods))), np.int64)",
        "np.zeros_like(self._columns)",
        "tests/unit/preemption/test_importance.py::test_all_that_was_ranked_may_have_changed",
    ),
    NamedFault(
        "one preemption compares all budgets with all label sets",
        "kernel/preemption/budgets",
        "            left = MAX_COMPARED // len(unknown)\n",
        "            left = 2**60\n",
        _BUDGETS + "test_what_one_decision_compares_is_bounded",
    ),
    NamedFault(
        "one namespace with very many budgets delays those of all others",
        "kernel/preemption/budgets",
        "            left = MAX_COMPARED // len(unknown)\n",
        "            left = MAX_COMPARED if namespace == next(iter(unknown)) else 0\n",
        _BUDGETS + "test_what_one_decision_compares_is_bounded",
    ),
    NamedFault(
        "a pod whose decision was interrupted for a second is tried last",
        "daemon/driver/driver",
        "            if uid and used > LONG_SECONDS:\n",
        "            if uid:\n",
        _DRIVER + "test_time_without_the_processor_is_not_the_pods",
    ),
    NamedFault(
        "a pod that is decided quickly by now is tried last for ever",
        "kernel/queue/scheduling_queue",
        "        self._forgive()\n",
        "",
        "tests/unit/queue/test_scheduling_queue.py::test_a_pod_that_took_long_is_forgiven",
    ),
    NamedFault(
        "a pod that did not go where it was expected stays nominated there",
        "kernel/engine/failure",
        "    if nominated == pod.pod.status.nominated_node_name and not is_nominated:\n",
        "    if nominated == pod.pod.status.nominated_node_name:\n",
        _HOLDING + "test_where_a_pod_is_about_to_go_is_told",
    ),
    NamedFault(
        "preemption takes part of a group although others would do",
        "kernel/preemption/dry_run",
        "        spared = violates | together\n",
        "        spared = violates\n",
        "tests/unit/preemption/test_evaluator.py::test_pods_that_were_placed_together_leave_last",
    ),
    NamedFault(
        "nodes count as alike although devices that many see come between theirs",
        "kernel/devices/layout_keys",
        '            columns["slot"] = slots[self._kept]\n',
        "            pass\n",
        "tests/unit/devices/test_shares.py"
        "::test_nodes_with_equal_devices_differ_by_what_comes_between_their_pools",
    ),
    NamedFault(
        "nodes count as alike although more of their shared devices is consumed",
        "kernel/devices/layout_keys",
        "        columns |= self._shared_columns()\n",
        "",
        "tests/unit/devices/test_shares.py"
        "::test_nodes_with_equal_devices_differ_by_what_is_consumed",
    ),
    NamedFault(
        "a claim that members of a group share is given up with the first of them",
        "kernel/devices/claim_catalog",
        "        if left.pods:\n            self.in_flight[uid]",
        "        if not left.pods:\n            self.in_flight[uid]",
        "tests/scenario/test_devices.py::test_members_of_a_gang_share_a_claim_that_none_had",
    ),
    NamedFault(
        "what the watch brings late undoes the answer to a write: a device is given twice",
        "kernel/engine/other_event_handlers",
        "            self._answers.note(place, new, old)\n",
        "            pass\n",
        _CLAIMS + "test_an_answer_counts_before_the_watch_and_is_not_undone_by_it",
    ),
    NamedFault(
        "what only answers showed outlives a restore: devices stay in use forever",
        "kernel/engine/engine",
        "            handlers.set_back()\n",
        "            pass\n",
        _CLAIMS + "test_an_answer_is_forgotten_when_the_server_was_set_back",
    ),
    NamedFault(
        "a new leader decides by what it knew before its watch broke off",
        "daemon/driver/daemon",
        "                self._informers.catch_up()\n",
        "                pass\n",
        "tests/scenario/test_watch_faults.py::test_a_new_leader_lists_what_it_may_have_missed",
    ),
    NamedFault(
        "an answer brings a claim back that is gone",
        "kernel/engine/other_event_handlers",
        "        if old is not None and is_older_of_same(old.metadata, new.metadata):\n",
        "        if old is None or is_older_of_same(old.metadata, new.metadata):\n",
        _CLAIMS + "test_an_answer_about_a_claim_that_is_gone_brings_it_not_back",
    ),
    NamedFault(
        "a claim that shows no allocation yet frees the devices that are being written into it",
        "kernel/devices/claim_catalog",
        "            if uid not in self.in_flight:\n",
        "            if True:\n",
        "tests/unit/plugins/test_dynamic_resources.py::"
        "test_a_claim_that_changes_on_the_way_keeps_its_devices",
    ),
    NamedFault(
        "what devices serve is a reason where a node is rejected for another",
        "kernel/plugins/node_resources_fit_state",
        "        ] = False\n",
        "        ] = True\n",
        "tests/unit/plugins/test_node_resources_fit.py::"
        "test_what_devices_serve_is_no_reason_beside_others",
    ),
    NamedFault(
        "an error hides from `||` that a later term panics",
        "kernel/cel/calls",
        "                arguments.append(_value_or_error(runs[1], frame))\n",
        "                arguments.append(error)\n",
        _EXPRESSIONS + "test_a_panic_of_upstream_is_not_absorbed",
    ),
    NamedFault(
        "a version in a list of texts is just not there, where kube-scheduler fails",
        "kernel/cel/planner",
        "            check_hashable(found)\n",
        "",
        _EXPRESSIONS + "test_a_panic_of_upstream_is_not_absorbed",
    ),
    NamedFault(
        "a constant under a bound name is worked out when an expression is compiled",
        "kernel/cel/planner",
        "return replace(result, constant=False)",
        "return result",
        _EXPRESSIONS + "test_a_name_bound_to_a_constant_is_worked_out_on_devices",
    ),
    NamedFault(
        "a quantity that was computed is equal to one that was written",
        "kernel/cel/comparing",
        "    if type(two) is not Quantity or two.computed:\n",
        "    if type(two) is not Quantity:\n",
        _EXPRESSIONS + "test_values",
    ),
    NamedFault(
        "plugins that are not trusted are asked about pods to come",
        "kernel/framework/runtime/class_plugins",
        "            each.is_trusted and each not in self.raw_scores for each in self._of_pods\n",
        "            each not in self.raw_scores for each in self._of_pods\n",
        "tests/unit/framework/test_pod_classes.py::test_who_is_asked_about_pods_to_come",
    ),
    NamedFault(
        "what must be normalized is foreseen as if it were a total",
        "kernel/framework/runtime/class_plugins",
        "            each.is_trusted and each not in self.raw_scores for each in self._of_pods\n",
        "            each.is_trusted for each in self._of_pods\n",
        "tests/unit/framework/test_pod_classes.py::test_who_is_asked_about_pods_to_come",
    ),
    NamedFault(
        "nodes that sampling left out are asked about once an extender has refused the sample",
        "kernel/engine/algorithm",
        "            is_sample = len(rows) < len(found.feasible_rows())\n",
        "",
        "tests/unit/engine/test_asking.py::"
        "test_nodes_left_out_of_a_sample_are_not_asked_about_afterwards",
    ),
)
