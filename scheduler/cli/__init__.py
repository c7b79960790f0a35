"""The commands of `stowage`."""
