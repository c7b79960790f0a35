"""Reads, completes, checks and writes KubeSchedulerConfiguration v1.

    load.py             text -> effective configuration, or every problem at once
    types.py, args.py   the types of the configuration and of plugin arguments
    defaults.py         defaults that depend on several fields
    validation.py, args_validation.py
                        checks of the completed configuration
    plugin_sets.py      the default plugins, and the extension points of each plugin
    write.py            effective configuration -> YAML that kube-scheduler starts with
    notices.py          parts of a configuration without effect here
    flags.py            kube-scheduler's command line

The package depends neither on plugin code nor on a cluster.
"""
