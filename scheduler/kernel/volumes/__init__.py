"""Where storage is, and which of it a pod can have: pure matching, limits, an assume cache."""
