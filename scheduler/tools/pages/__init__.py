"""Pages for a browser: a shell, styles and modules as they are, and pages without a server."""
