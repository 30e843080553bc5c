"""Changes that setup fixers make on a host, with a journal for undo."""
