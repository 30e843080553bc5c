"""The one definition of a project's files: walk of the folder, git's ignore rules, secrets, and digests."""
