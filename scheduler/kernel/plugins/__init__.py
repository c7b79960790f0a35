"""The in-tree plugins: one file each, in column form.

Plugins do I/O in PreBind and Bind only, through the handle, which also has the clock. They do not
log, and do not loop over all nodes or over the pods of the cluster.
"""
