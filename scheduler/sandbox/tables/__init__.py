"""What `kubectl get` prints: the server turns objects into the cells of a table."""
