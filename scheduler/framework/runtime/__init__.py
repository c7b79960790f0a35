"""The engine that runs the plugins of one profile."""

from scheduler.framework.runtime.bound import PluginError
from scheduler.framework.runtime.diagnosis import Diagnosis
from scheduler.framework.runtime.filtering import Feasibility
from scheduler.framework.runtime.framework import Framework
from scheduler.framework.runtime.plugin_set import PluginSet, PluginSetError
from scheduler.framework.runtime.verdicts import Verdicts

__all__ = [
    "Diagnosis",
    "Feasibility",
    "Framework",
    "PluginError",
    "PluginSet",
    "PluginSetError",
    "Verdicts",
]
