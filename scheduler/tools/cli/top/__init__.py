"""`stowage top`: a cluster or a recording on one live screen."""
