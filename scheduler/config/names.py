"""Validation of label keys, label values and resource names, as in Kubernetes.

Source: k8s.io/apimachinery/pkg/api/validate/content; pkg/apis/core/v1/helper
IsExtendedResourceName.
"""

import re
from typing import Final

from scheduler.api.selectors import is_label_value

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_MAX_NAME: Final = 63
_MAX_PREFIX: Final = 253
_NATIVE: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."

_NAME_RULE = (
    f"at most {_MAX_NAME} letters, digits, '-', '_' or '.', beginning and ending with a letter or "
    "digit"
)


def label_key_error(key: str) -> str | None:
    """Describe the error in a label key (a "qualified name"); None if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return 'expected a name or "domain/name", found more than one "/"'
    if slash and not (len(prefix) <= _MAX_PREFIX and _SUBDOMAIN.fullmatch(prefix)):
        return f'expected a lower-case DNS name before the "/", got "{prefix}"'
    where = ' after the "/"' if slash else ""
    if not name:
        return f"expected a name{where}, found nothing"
    if not (len(name) <= _MAX_NAME and _NAME.fullmatch(name)):
        return f'expected {_NAME_RULE}{where}, got "{name}"'
    return None


def label_value_error(value: str) -> str | None:
    """Describe the error in a label value; None if it is valid."""
    if is_label_value(value):
        return None
    return f'expected {_NAME_RULE}, or nothing, got "{value}"'


def extended_resource_error(name: str) -> str | None:
    """Describe why a name cannot be an extended resource; None if it can."""
    error = label_key_error(name)
    if error is not None:
        return error
    is_native = "/" not in name or _NATIVE in name
    if is_native or name.startswith(_QUOTA_PREFIX) or label_key_error(_QUOTA_PREFIX + name):
        return (
            'expected an extended resource such as "example.com/gpu" outside of kubernetes.io, '
            f'got "{name}"'
        )
    return None
