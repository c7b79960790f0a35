"""Records what this folder's tests compare with.

    python tests/unit/config/record.py [.cache/controlplane/controlplane]

`broken.txt` is what Stowage says to each broken file: read every change of it as a person who
has to mend the file. With the binary, `kube-scheduler.json` is what the real kube-scheduler 1.36.3
makes of each file; it also must accept what Stowage writes. No API server is needed: kube-scheduler
checks a configuration, writes it and exits before it connects.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from scheduler.config.load import load
from scheduler.config.problems import ConfigError
from scheduler.config.write import to_yaml

HERE = Path(__file__).parent

_PLUGINS = re.compile(r'"the scheduler starts to work with those plugins" Plugins=(\{.*)')


def files(folder: str) -> list[Path]:
    """The configuration files of one folder."""
    return sorted((HERE / folder).glob("*.yaml"))


def message(path: Path) -> str:
    """What Stowage says to a broken file."""
    try:
        load(path.read_bytes(), source=path.name)
    except ConfigError as error:
        return str(error)
    return "(accepted)"


def main() -> None:
    """Write the recordings."""
    messages = "\n\n".join(message(path) for path in files("broken"))
    (HERE / "broken.txt").write_text(messages + "\n")
    if len(sys.argv) > 1:
        answers = {
            path.relative_to(HERE).as_posix(): ask(sys.argv[1], path)
            for folder in ("accepted", "broken")
            for path in files(folder)
        }
        lines = (f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in answers.items())
        (HERE / "kube-scheduler.json").write_text("{" + ",\n".join(lines) + "}\n")
        (HERE / "kube-scheduler-flags.txt").write_text(flags(sys.argv[1]))
        for path in files("accepted"):
            check_written(sys.argv[1], path)


def ask(binary: str, path: Path) -> dict[str, Any] | None:
    """Give kube-scheduler one file; None when it refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "written.yaml"
        flags = ["--master", "http://127.0.0.1:1", "--secure-port", "0", "-v", "2"]
        paths = ["--config", str(path), "--write-config-to", str(written)]
        done = subprocess.run(
            [binary, "kube-scheduler", *paths, *flags],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if not written.exists():
            return None
        config = yaml.safe_load(written.read_text())
    return {"config": config, "expansions": [_expansion(t) for t in _PLUGINS.findall(done.stderr)]}


def flags(binary: str) -> str:
    """The names of kube-scheduler's flags, one a line."""
    text = subprocess.run(
        [binary, "kube-scheduler", "--help"], capture_output=True, text=True, check=True
    ).stdout
    names = re.findall(r"^ +(?:-\w, )?--([\w-]+)", text, re.MULTILINE)
    return "".join(f"{name}\n" for name in sorted(set(names) - {"help", "version"}))


def check_written(binary: str, path: Path) -> None:
    """Give kube-scheduler what Stowage writes."""
    with tempfile.TemporaryDirectory() as folder:
        ours = Path(folder) / "ours.yaml"
        ours.write_text(to_yaml(load(path.read_bytes())))
        if ask(binary, ours) is None:
            sys.exit(f"kube-scheduler refuses what Stowage makes of {path}")


def _expansion(text: str) -> dict[str, list[list[Any]]]:
    """One profile's plugins by extension point, from the log line."""
    sets = json.JSONDecoder().raw_decode(text)[0]
    return {
        point[0].lower() + point[1:]: [[p["Name"], p["Weight"]] for p in plugins["Enabled"]]
        for point, plugins in sets.items()
        if plugins["Enabled"] and point != "MultiPoint"
    }


if __name__ == "__main__":
    main()
