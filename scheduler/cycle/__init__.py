"""One attempt to schedule one pod, from the queue to the binding."""
