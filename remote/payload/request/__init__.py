"""A request in progress, the names in it, and refusals."""
