"""Pages for a browser: their HTML, styles and modules, served or saved as complete files."""
