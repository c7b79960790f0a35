"""A process with the rights of a pod: nothing can be written, no home, a uid without a name."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

UID: Final = 65532
HOSTNAME: Final = "web-7f9c.not-in-any-zone"
"""A name that nothing resolves."""

_CAPS: Final = "-all,+dac_read_search"
"""The one capability is for an interpreter in the folder of another user; an image needs none."""

_SHELL: Final = f"""
while read -r _ place _; do mount -o remount,bind,ro "$place" 2>/dev/null; done </proc/self/mounts
hostname {HOSTNAME}
exec setpriv --reuid={UID} --regid={UID} --clear-groups --no-new-privs \
  --inh-caps={_CAPS} --ambient-caps={_CAPS} --bounding-set={_CAPS} \
  env -i "$@"
"""


def is_possible() -> bool:
    """Whether this user may make namespaces."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return False
    tried = ["unshare", "--mount", "--uts", "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def in_pod(*arguments: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """The words of a process of Python's with such rights, and with these variables only."""
    settings = [f"{name}={value}" for name, value in (environ or {}).items()]
    shell = ["unshare", "--mount", "--uts", "sh", "-c", _SHELL, "sh"]
    return [*shell, *settings, sys.executable, *arguments]
