"""What `stowage demo` is made of: a cluster in memory, a load, a story, a screen."""
