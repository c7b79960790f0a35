"""The engine that runs the plugins of one profile."""

from scheduler.kernel.framework.runtime.answers import WrongAnswerError
from scheduler.kernel.framework.runtime.diagnosis import AttemptDiagnosis, Feasibility
from scheduler.kernel.framework.runtime.framework import Framework
from scheduler.kernel.framework.runtime.plugin_calls import PluginError
from scheduler.kernel.framework.runtime.plugin_set import PluginSetError, ProfilePlugins
from scheduler.kernel.framework.runtime.verdicts import Verdicts

__all__ = [
    "AttemptDiagnosis",
    "Feasibility",
    "Framework",
    "PluginError",
    "PluginSetError",
    "ProfilePlugins",
    "Verdicts",
    "WrongAnswerError",
]
