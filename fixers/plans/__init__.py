"""Plans of fixers: computed per file, cached, shown as diffs, applied to a local folder and undone."""
