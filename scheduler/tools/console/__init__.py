"""`stowage console`: the answers of the commands as pages in a browser, served on loopback."""
