"""A request that is being answered, the names in it, and refusals."""
