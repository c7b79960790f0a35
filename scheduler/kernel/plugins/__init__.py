"""The in-tree plugins: one file each, in column form.

A plugin decides and nothing else: no I/O (DefaultBinder excepted), no clock, no log line, and no
loop over nodes or over the pods of the cluster.
"""
