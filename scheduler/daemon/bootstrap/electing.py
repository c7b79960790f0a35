"""Builds the leader elector of a daemon from its configuration."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from scheduler.clock import Clock
from scheduler.config.feature_gates import COORDINATED_LEADER_ELECTION
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.daemon.bootstrap.reloading import lease_of
from scheduler.daemon.client.lease_candidates import CandidateRecord
from scheduler.daemon.client.leases import LeaseLock
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.leader_election.campaign import CampaignThread
from scheduler.daemon.leader_election.candidacy import Candidacy
from scheduler.daemon.leader_election.election import LeaderElectionSettings
from scheduler.daemon.leader_election.elector import (
    ElectionCallbacks,
    LeaderElector,
    unique_identity,
)
from scheduler.kernel.engine.instructions import RecordEvent
from scheduler.observability.build_info import stowage_version
from scheduler.observability.instruments import GaugeMetric


def leader_elector(  # noqa: PLR0913 - the parts of the daemon that it uses
    config: KubeSchedulerConfiguration,
    session: ApiSession,
    open_session: Callable[[asyncio.AbstractEventLoop], ApiSession],
    *,
    clock: Clock,
    rng: random.Random,
    status: GaugeMetric,
    record_event: Callable[[RecordEvent], None],
) -> LeaderElector:
    """Build the elector of a configuration with leader election.

    Args:
        config: the configuration.
        session: sends the requests for the Lease, and for the LeaseCandidate.
        open_session: opens a session in the event loop of the campaign's thread.
        clock: the clock of the lease.
        rng: spreads the tries to acquire the lease.
        status: is 1 while this process leads, otherwise 0.
        record_event: records an event about the Lease.
    """
    election = config.leader_election
    name, namespace = election.resource_name, election.resource_namespace
    profile = config.profiles[0].scheduler_name

    def report(text: str) -> None:
        lease = lease_of(config, elector.lease_uid)
        record_event(RecordEvent(lease, "LeaderElection", "LeaderElection", text, profile))

    @asynccontextmanager
    async def own_lock(home: asyncio.AbstractEventLoop) -> AsyncIterator[LeaseLock]:
        async with open_session(home) as own:
            yield LeaseLock(own, namespace, name)

    status.set(0)
    is_coordinated = COORDINATED_LEADER_ELECTION in config.feature_gates
    identity = unique_identity("-" if is_coordinated else "_")
    candidacy = Candidacy(
        CandidateRecord(session, namespace, identity),
        name,
        stowage_version(),
        clock,
        election.retry_period_seconds / 2,
    )
    elector = LeaderElector(
        LeaseLock(session, namespace, name),
        LeaderElectionSettings(
            identity=identity,
            lease_duration_seconds=election.lease_duration_seconds,
            renew_deadline_seconds=election.renew_deadline_seconds,
            retry_period_seconds=election.retry_period_seconds,
            is_coordinated=is_coordinated,
        ),
        clock=clock,
        rng=rng,
        callbacks=ElectionCallbacks(
            on_started_leading=lambda: status.set(1),
            on_stopped_leading=lambda: status.set(0),
            on_event=report,
        ),
        campaigning=CampaignThread(own_lock, clock),
        candidacy=candidacy if is_coordinated else None,
    )
    return elector
