"""What a fixer is given and what it gives back: a site with its tree and target, a plan of changes."""
