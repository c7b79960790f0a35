"""What a browser shows: a shell, styles and modules as they are, and pages that need no server."""
