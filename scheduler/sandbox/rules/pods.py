"""Rules for pods."""

from scheduler.sandbox.rules.contract import Rules
from scheduler.sandbox.rules.pod_admission import admit_pod, prepare_pod, prepare_pod_update
from scheduler.sandbox.rules.pod_defaults import default_pod
from scheduler.sandbox.rules.pod_updates import validate_pod_update
from scheduler.sandbox.rules.pod_validation import validate_pod

RULES = Rules(
    default=default_pod,
    admit=admit_pod,
    prepare_create=prepare_pod,
    prepare_update=prepare_pod_update,
    validate=validate_pod,
    validate_update=validate_pod_update,
)
