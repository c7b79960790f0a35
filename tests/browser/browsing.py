"""A browser, and consoles for it to look at: processes as users start them.

The browser is Debian's `chromium`; where there is none, tests that need it are skipped, unless
`BROWSER=required` says that they must run.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from apistub.__main__ import LISTENING
from tests.support.manifests import Manifest

AXE: Final = Path(__file__).with_name("vendor") / "axe.min.js"


PATIENCE: Final = 60_000
"""Milliseconds that a page may take on a busy machine."""


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    expect.set_options(timeout=PATIENCE)
    found = shutil.which("chromium")
    if found is None:
        told = "chromium is not installed; on Debian: apt install chromium"
        if os.environ.get("BROWSER") == "required":
            raise RuntimeError(told)
        pytest.skip(told)
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def console(*arguments: str, folder: Path | None = None) -> Iterator[str]:
    """The address of `stowage console` in a folder, without the last slash."""
    command = [sys.executable, "-m", "scheduler", "console", "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            yield line.partition("http")[1] + line.partition("http")[2].split("/ ")[0]
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def sandbox(kubeconfig: Path) -> Iterator[str]:
    """The address of a stand-in API server, in a process of its own."""
    command = [sys.executable, "-m", "apistub", "--port", "0", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = process.stdout or ()
            yield next(line.partition(LISTENING)[2].strip() for line in lines if LISTENING in line)
        finally:
            process.terminate()
            process.wait(60)


def create(server: str, where: str, manifest: Manifest) -> None:
    """Submit an object."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{server}/api/v1/{where}", json.dumps(manifest).encode(), headers
    )
    urllib.request.urlopen(request, timeout=60).close()  # noqa: S310 - loopback
