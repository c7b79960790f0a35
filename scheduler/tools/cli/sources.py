"""The sources of the commands that look at a cluster: files, or the cluster of a kubeconfig."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from scheduler.tools.cli.inputs import (
    feature_gates_option,
    read_documents,
    read_profiles,
)
from scheduler.tools.cli.options import cluster_options
from scheduler.tools.cli.recordings import RecordedSource
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.asking import NOT_ASKED
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import (
    ClusterObjects,
    InputError,
    objects_beside,
    objects_from_documents,
)
from scheduler.tools.offline.recorded import recorded_profiles

instance_option: Final = click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="NAMESPACE/NAME",
    help="The Deployment of Stowage in the cluster whose configuration decides, if several run "
    "there. May be given several times.",
)


class InputSource(msgspec.Struct, frozen=True):
    """The options that name the cluster and the configuration.

    Attributes:
        files: files with objects; without any, a cluster is read.
        kubeconfig: the kubeconfig of the cluster; if empty, kubectl's default.
        context: the context in it.
        config_file: the file with the profiles that decide; None for the default profile.
        feature_gates: settings, each as `Name=true` or `Name=false`.
        recorded: a daemon or a recording that is read instead of a cluster, if any.
        instances: the running instances whose configuration decides, as `namespace/name`.
    """

    files: tuple[str, ...]
    kubeconfig: str
    context: str
    config_file: str | None
    feature_gates: tuple[str, ...]
    recorded: RecordedSource | None = None
    instances: tuple[str, ...] = ()

    def read(
        self,
        *,
        documents: Sequence[tuple[str, Any]] = (),
        tries_all_nodes: bool = False,
        asks_extenders: bool = False,
    ) -> tuple[ClusterObjects, Profiles, tuple[str, ...]]:
        """Read the cluster, the profiles that decide, and notices about settings without effect.

        Args:
            documents: the contents of the files, if they have been read already.
            tries_all_nodes: as for `Profiles`.
            asks_extenders: whether the command asks extenders; they need whole objects.

        Raises:
            SchedulerError: a file, the configuration or the cluster cannot be read.
        """
        if self.recorded is not None:
            return self._read_recorded(self.recorded, tries_all_nodes=tries_all_nodes)
        if self.files and (self.kubeconfig or self.context):
            raise InputError("-f asks files, --kubeconfig and --context a cluster: give one")
        profiles, notices = self.profiles(tries_all_nodes=tries_all_nodes)
        has_extenders = bool(profiles.config.extenders)
        if has_extenders and not asks_extenders:
            notices = (*notices, NOT_ASKED)
        if self.files:
            found = documents or read_documents(self.files)
            objects = objects_from_documents(found, admission=Admission(), watched=profiles.watched)
            return objects, profiles, notices
        from scheduler.tools.cli.live import ClusterAddress, read_cluster  # noqa: PLC0415 - half a second that files need not wait for

        objects = read_cluster(
            ClusterAddress(self.kubeconfig, self.context),
            profiles.watched,
            keeps_written=has_extenders and asks_extenders,
        )
        return objects, profiles, notices

    def profiles(self, *, tries_all_nodes: bool = False) -> tuple[Profiles, tuple[str, ...]]:
        """Build the profiles that decide: of the file, or of the cluster's running instances.

        Raises:
            SchedulerError: a configuration cannot be read, or the instance has to be named.
        """
        if self.files or self.config_file is not None:
            self._refuse_instances()
            return read_profiles(
                self.config_file, feature_gates=self.feature_gates, tries_all_nodes=tries_all_nodes
            )
        from scheduler.tools.cli.instances import profiles_at_work  # noqa: PLC0415 - half a second that files need not wait for
        from scheduler.tools.cli.live import ClusterAddress  # noqa: PLC0415 - as above

        return profiles_at_work(
            ClusterAddress(self.kubeconfig, self.context),
            self.feature_gates,
            named=self.instances,
            tries_all_nodes=tries_all_nodes,
        )

    def _refuse_instances(self) -> None:
        if self.instances:
            raise InputError(
                "--instance names a configuration of the cluster: leave out -f, --config, "
                "--daemon and --recording"
            )

    def read_beside(
        self, documents: Iterable[tuple[str, Any]], cluster: ClusterObjects, profiles: Profiles
    ) -> ClusterObjects:
        """Read submitted objects, completed as the API server of the cluster would.

        A recording has no priority classes and the like; they are read from the daemon's cluster.

        Raises:
            SchedulerError: a document, or the cluster, cannot be read.
        """
        admission, problems = self.admission_beside(cluster)
        found = objects_beside(cluster, documents, admission, profiles.watched)
        found.warnings += problems
        return found

    def admission_beside(self, cluster: ClusterObjects) -> tuple[Admission, tuple[str, ...]]:
        """Read the defaults of the cluster's admission, and list the kinds that cannot be read.

        Raises:
            SchedulerError: the cluster cannot be read.
        """
        if self.files or (self.recorded is not None and not self.recorded.daemon):
            return cluster.admission, ()
        from scheduler.tools.cli.live import ClusterAddress, read_admission  # noqa: PLC0415 - half a second that files need not wait for

        return read_admission(ClusterAddress(self.kubeconfig, self.context))

    def _read_recorded(
        self, recorded: RecordedSource, *, tries_all_nodes: bool
    ) -> tuple[ClusterObjects, Profiles, tuple[str, ...]]:
        """Read a recorded cluster, with the daemon's profiles unless others are given."""
        recorded.check()
        self._refuse_instances()
        if self.files:
            raise InputError("-f asks files, --daemon and --recording a daemon: give one")
        if self.feature_gates and self.config_file is None:
            raise InputError(
                "--daemon and --recording have their own feature gates: leave out "
                "--feature-gates, or add --config FILE"
            )
        cluster = recorded.read(self.kubeconfig, self.context)
        notices: tuple[str, ...] = ()
        if self.config_file is None:
            profiles = recorded_profiles(cluster.header, tries_all_nodes=tries_all_nodes)
        else:
            profiles, notices = read_profiles(
                self.config_file, feature_gates=self.feature_gates, tries_all_nodes=tries_all_nodes
            )
        if profiles.config.extenders:
            # A recording lacks fields of pods and nodes that extenders need.
            profiles, notices = profiles.without_extenders(), (*notices, NOT_ASKED)
        return cluster.read_for(profiles), profiles, notices


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the source of a cluster; the command gets a `source`."""

    @wraps(command)
    def with_source(**options: Any) -> Any:
        fields = (name for name in InputSource.__struct_fields__ if name in options)
        source = InputSource(**{name: options.pop(name) for name in tuple(fields)})
        return command(source=source, **options)

    added = (
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="FILE",
            help="Ask files instead of a cluster: objects in YAML or JSON (JSON is read much "
            "faster), also compressed with gzip. Of a directory, such as that of `kubectl "
            "cluster-info dump`, all such files count; - is standard input. May be given several "
            "times.",
        ),
        cluster_options("The cluster to ask; as kubectl finds it."),
        click.option(
            "--config",
            "config_file",
            metavar="FILE",
            help="KubeSchedulerConfiguration whose profiles decide, each about the pods with its "
            "schedulerName. A profile without a name, such as the default one that is used "
            "without this option, decides about the pods of default-scheduler and of stowage.",
        ),
        instance_option,
        feature_gates_option,
    )
    decorated: Callable[..., Any] = with_source
    for option in reversed(added):
        decorated = option(decorated)
    return decorated


def recorded_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a daemon or a recording to those of `source_options`."""

    @wraps(command)
    def with_recorded(*, source: InputSource, **options: Any) -> Any:
        recorded = RecordedSource(
            **{name: options.pop(name) for name in RecordedSource.__struct_fields__}
        )
        if recorded.is_given:
            source = msgspec.structs.replace(source, recorded=recorded)
        return command(source=source, **options)

    added = (
        click.option(
            "--daemon",
            default="",
            metavar="URL",
            help="Ask a running daemon instead of the cluster, with the credentials of the "
            "kubeconfig: what it knows is fetched once from its secure port, and its own profiles "
            "decide.",
        ),
        click.option(
            "--certificate-authority",
            metavar="FILE",
            help="What the daemon's certificate must lead to.",
        ),
        click.option(
            "--insecure-skip-tls-verify",
            is_flag=True,
            help="Accept any certificate of the daemon, as behind kubectl port-forward.",
        ),
        click.option(
            "--recording",
            "recordings",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Ask a recording of `stowage run --record`, or of /debug/recording: its directory "
            "or all its files.",
        ),
        click.option(
            "--at",
            "moment",
            metavar="TIME",
            help="As things were at this moment of the recording: seconds since its start, or a "
            "time of day.",
        ),
    )
    decorated: Callable[..., Any] = with_recorded
    for option in reversed(added):
        decorated = option(decorated)
    return decorated
