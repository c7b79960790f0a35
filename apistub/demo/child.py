"""Runs a module as `python -m MODULE ARGUMENT...` does, and ends it with the demo.

The demo holds the other end of standard input. It closes however the demo ends: a demo that is
killed cannot stop its children.
"""

import os
import runpy
import signal
import sys
import threading


def _end_with_demo() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_demo, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
