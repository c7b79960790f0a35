"""`stowage shadow`: this scheduler's verdicts on another one's bindings."""

import click

from scheduler.clock import SystemClock
from scheduler.config.options import RunOptions
from scheduler.daemon.client import event_loop
from scheduler.errors import SchedulerError
from scheduler.observability import logs
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.cli.inputs import feature_gates_option, read_profiles, refuse
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.cli.options import Output, cluster_options, command, output_option
from scheduler.tools.cli.shadow_watch import ShadowWatch
from scheduler.tools.offline.asking import NOT_ASKED
from scheduler.tools.offline.cluster import Profiles


@command()
@cluster_options("The cluster to watch; as kubectl finds it.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The KubeSchedulerConfiguration that the other scheduler runs with; without it, its "
    "default profile judges.",
)
@feature_gates_option
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Whose bindings to judge; may be given several times. By default those of the profiles of "
    "--config, or default-scheduler.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to print a summary.",
)
@click.option(
    "--examples",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many disagreements of each kind a summary explains.",
)
@output_option("For people, or a line of JSON for each summary.")
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Where to serve /metrics, /debug/shadow and probes; 0: nowhere.",
)
@click.option("--bind-address", default="0.0.0.0", show_default=True, metavar="IP")  # noqa: S104 - as of `stowage run`
@click.option(
    "--serve-without-authorization",
    is_flag=True,
    help="Answer every caller of the port; without it, rights to create reviews are needed.",
)
def shadow(  # noqa: PLR0913 - one argument per option
    *,
    kubeconfig: str,
    context: str,
    config_file: str | None,
    feature_gates: tuple[str, ...],
    names: tuple[str, ...],
    every: float,
    examples: int,
    output: Output,
    secure_port: int,
    bind_address: str,
    serve_without_authorization: bool,
) -> None:
    """Watch another scheduler at work, and say where this one would have decided otherwise.

    Each of its bindings is judged when it appears: did the pod fit there, and was there a better
    node? Nothing is changed: rights to list and watch are enough. Ends with a last summary on
    SIGINT or SIGTERM.

    \b
      stowage shadow
      stowage shadow --config kube-scheduler.yaml -o json --every 600

    The exit status is 2 when the kubeconfig or the configuration cannot be used. A server that does
    not answer is asked again, with a line in the log.
    """  # noqa: D301 - \b is click's mark for lines to keep
    clock = SystemClock()
    logs.configure(clock, 0)
    options = RunOptions(
        secure_port=secure_port,
        bind_address=bind_address,
        serve_without_authorization=serve_without_authorization,
    )
    try:
        profiles = _profiles_called(names, config_file, feature_gates)
        watch = ShadowWatch(profiles, ClusterAddress(kubeconfig, context), options, clock, examples)
        event_loop.run(watch.run(every, output))
    except SchedulerError as problem:
        refuse("shadow", problem)


def _profiles_called(
    names: tuple[str, ...], config_file: str | None, feature_gates: tuple[str, ...]
) -> Profiles:
    """The profiles that judge the bindings of each scheduler.

    Raises:
        SchedulerError: the configuration cannot be used.
    """
    profiles, notices = read_profiles(config_file, feature_gates=feature_gates)
    if profiles.config.extenders:
        notices = (*notices, NOT_ASKED)
    own = [profile.scheduler_name for profile in profiles.config.profiles]
    for name in names:
        if config_file is not None and name not in own:
            notices = (*notices, f"{name}: no profile has this name; {own[0]} judges.")
    for notice in notices:
        print_note(notice)
    frameworks = profiles.frameworks
    profiles.frameworks = {name: frameworks.get(name, frameworks[own[0]]) for name in names or own}
    return profiles
