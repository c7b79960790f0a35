"""KubeSchedulerConfiguration v1: read, completed, checked and written.

    load.py             text -> effective configuration, or every problem at once
    types.py, args.py   what the configuration consists of
    defaults.py         defaults that depend on several fields
    validation.py, args_validation.py
                        what must hold
    plugin_sets.py      the default plugins, and which plugin runs at which extension point
    write.py            effective configuration -> YAML that kube-scheduler starts with
    notices.py          parts of a configuration without effect here
    flags.py            kube-scheduler's command line

The package knows no plugin code and no cluster.
"""
