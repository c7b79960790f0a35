"""Stand-ins for the programs that act on what the API server holds."""
