"""A request that is being answered: its arguments, the validation of names, and refusals."""
