"""Storage: the volumes a pod can have, and where. Pure matching, limits, an assume cache."""
