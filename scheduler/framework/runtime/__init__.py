"""The engine that runs the plugins of one profile."""

from scheduler.framework.runtime.diagnosis import Diagnosis, NodeVerdicts
from scheduler.framework.runtime.filtering import Feasibility
from scheduler.framework.runtime.framework import Framework
from scheduler.framework.runtime.instrumentation import PluginError, PluginObserver
from scheduler.framework.runtime.plugin_set import PluginSet, PluginSetError
from scheduler.framework.runtime.waiting_pods import WaitingPods

__all__ = [
    "Diagnosis",
    "Feasibility",
    "Framework",
    "NodeVerdicts",
    "PluginError",
    "PluginObserver",
    "PluginSet",
    "PluginSetError",
    "WaitingPods",
]
