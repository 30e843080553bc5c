"""The input of a fixer (site, tree, target) and its output (a plan of changes and findings)."""
