"""The one definition of a project's files: which exist, which git ignores, which are secret, and their digests."""
