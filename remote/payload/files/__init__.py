"""Files that appear whole, locks on them, and small operations on single ones."""
