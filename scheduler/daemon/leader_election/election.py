"""The rules of an election, without I/O: takes observations with times, returns permitted actions.

No rule compares two clocks. A candidate measures on its own monotonic clock how long the record in
the Lease has not changed; it ignores the times in the record. A leader's term counts from the time
before it sent its last successful renewal. Other candidates see that renewal later, so the term
always ends before another candidate may acquire the lease.

Source: k8s.io/client-go tools/leaderelection/leaderelection.go (tryAcquireOrRenew) v0.36.
Differs: a leader's time ends by its own clock and not only when a renewal is found to have failed;
    a deleted Lease is made anew only after the last record seen in it has run out; standbys look
    twice per retry period and once more at the moment of expiry; a leader whose renewals fail tries
    more and more often towards its end. A Lease without a duration has that of the candidate that
    reads it. A candidate that the control plane has chosen claims the lease however late, and gives
    it back if another is preferred meanwhile: the control plane writes nothing when it chooses the
    holder of an expired lease again.
"""

import math
import random
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from scheduler.daemon.client.leases import LeaseSpec
from scheduler.daemon.client.wire import micro_time

WATCHDOG_TOLERANCE_SECONDS: Final = 20.0
"""Source: cmd/kube-scheduler/app/server.go (leader election health check) v1.36."""

MAX_TRANSITIONS: Final = 2**31 - 1
"""The API server refuses a larger number (int32), and with it every claim."""
LAST_WAIT: Final = 1 / 8
"""Share of a retry period that is too short for another attempt before a leader's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionSettings:
    """The identity and the times of a candidate.

    Attributes:
        identity: identifies this process; unique among all processes.
        lease_duration_seconds: time that others wait after the last renewal that they saw.
        renew_deadline_seconds: time after its last renewal in which a leader may write.
        retry_period_seconds: time between two renewals.
        is_coordinated: whether the control plane chooses the leader; see `candidacy`.
    """

    identity: str
    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0
    is_coordinated: bool = False


class Election:
    """One candidate's state. Times are seconds of its monotonic clock (`Clock.boot`).

    Invariant: `is_leading` of two candidates of one Lease is never true at the same time, even if
        requests are delayed or lost, or a process is stopped. A deleted Lease is the exception: a
        candidate that has never seen the Lease leads at once, and the old leader finds out at its
        next renewal.
    """

    def __init__(self, settings: LeaderElectionSettings) -> None:
        self.settings = settings
        self._record: LeaseSpec | None = None
        self._observed_at = 0.0
        self._valid_until = -math.inf

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last seen, or empty."""
        return self._record.holder_identity if self._record is not None else ""

    @property
    def valid_until(self) -> float:
        """The time at which this candidate's term ends; in the past if it does not lead."""
        return self._valid_until

    def is_leading(self, now: float) -> bool:
        """Return whether this candidate leads."""
        return now < self._valid_until

    def observe(self, record: LeaseSpec | None, now: float) -> None:
        """Note the result of a read of the Lease; `now` is the time of the answer.

        A deleted Lease changes nothing: its holder may still lead.
        """
        if record is not None and record != self._record:
            self._record = record
            self._observed_at = now
        if record is not None and not self._may_be_ours(record):
            self.step_down()

    def claim(self, now: float, wall: datetime) -> LeaseSpec | None:
        """Return the record that this candidate may write now; None if another has the lease."""
        record = self._record
        if self.settings.is_coordinated and (record is None or not self._may_be_ours(record)):
            return None
        stamp = micro_time(wall)
        claim = LeaseSpec(
            holder_identity=self.settings.identity,
            lease_duration_seconds=math.ceil(self.settings.lease_duration_seconds),
            acquire_time=stamp,
            renew_time=stamp,
        )
        if record is None:
            return claim
        kept = msgspec.structs.replace(
            claim, strategy=record.strategy, preferred_holder=record.preferred_holder
        )
        if record.holder_identity == self.settings.identity:
            return msgspec.structs.replace(
                kept,
                acquire_time=record.acquire_time,
                lease_transitions=record.lease_transitions,
            )
        if record.holder_identity and now < self.expiry:
            return None
        transitions = min(record.lease_transitions + 1, MAX_TRANSITIONS)
        return msgspec.structs.replace(kept, lease_transitions=transitions)

    def is_to_be_passed_on(self) -> bool:
        """Return whether this candidate holds the lease and the control plane prefers another."""
        record = self._record
        if record is None or record.holder_identity != self.settings.identity:
            return False
        return self._is_over(record)

    def _may_be_ours(self, record: LeaseSpec) -> bool:
        """Return whether a record names this candidate, and no other preferred holder."""
        return record.holder_identity == self.settings.identity and not self._is_over(record)

    def _is_over(self, record: LeaseSpec) -> bool:
        """Return whether the holder must step down: the control plane prefers another candidate.

        Source: client-go leaderelection.go (tryCoordinatedRenew).
        """
        return self.settings.is_coordinated and bool(record.preferred_holder)

    @property
    def expiry(self) -> float:
        """The time at which the lease expires unless its record changes."""
        if self._record is None:
            return -math.inf
        duration = self._record.lease_duration_seconds
        # One that was edited by hand may have none; its holder may act for as long as we would.
        return self._observed_at + (
            duration if duration > 0 else self.settings.lease_duration_seconds
        )

    def claimed(self, record: LeaseSpec, sent_at: float, now: float) -> None:
        """Note that the API server accepted a record of this candidate.

        `sent_at` is the time before the request was sent, `now` the time of the answer.
        """
        self._record = record
        self._observed_at = now
        self._valid_until = sent_at + self.settings.renew_deadline_seconds

    def step_down(self) -> None:
        """Stop leading at once."""
        self._valid_until = -math.inf

    def standby_pause(self, now: float, rng: random.Random) -> float:
        """Return the seconds until a standby reads the Lease again.

        Half a retry period, so that the standby sees a renewal early, and its own expiry is little
        later than the leader's. It is less if the lease expires sooner.
        """
        pause = self.settings.retry_period_seconds * 0.5 * rng.uniform(0.8, 1.0)
        if self.holder and self.expiry > now:
            # Several standbys must not write at the same time.
            pause = min(pause, self.expiry - now + rng.uniform(0.0, 0.02))
        return pause

    def renewal_due(self, started: float, now: float) -> float:
        """The time of a leader's next attempt to renew, or of its end.

        A retry period after the last attempt began. If that one failed, at half of the time that is
        left at the latest: the API server may be back shortly before the end.
        """
        settings, left = self.settings, self._valid_until - now
        due = started + settings.retry_period_seconds
        has_failed = self._valid_until < started + settings.renew_deadline_seconds
        if has_failed and left > settings.retry_period_seconds * LAST_WAIT:
            due = min(due, now + left / 2)
        return min(due, self._valid_until)

    def attempt_timeout(self, now: float) -> float:
        """Return the seconds that one attempt may take, so that a leader has time for another.

        Half the renew deadline, as in client-go; if less is left, half of it, or a retry period.
        """
        settings = self.settings
        if not self.is_leading(now):
            return settings.renew_deadline_seconds
        left, half = self._valid_until - now, settings.renew_deadline_seconds / 2
        # With half of the rest always, answers after a third of the deadline would lose the lease.
        return half if left > half else min(left, max(settings.retry_period_seconds, left / 2))

    def check_healthy(self, now: float) -> str | None:
        """Return the watchdog's message if this leader has not renewed for too long, or None."""
        if self.holder != self.settings.identity:
            return None
        allowed = self.settings.lease_duration_seconds + WATCHDOG_TOLERANCE_SECONDS
        silent = now - self._observed_at
        if silent <= allowed:
            return None
        return f"lease not renewed for {silent:.0f} s; expected a renewal within {allowed:.0f} s"


def released(record: LeaseSpec, wall: datetime) -> LeaseSpec:
    """Return the record that releases this process's lease, so that it need not expire.

    Source: client-go leaderelection.go (release) v0.36.
    """
    stamp = micro_time(wall)
    return msgspec.structs.replace(
        record,
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=stamp,
        renew_time=stamp,
    )
