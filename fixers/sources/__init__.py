"""Files as parsers see them, with positions; and the rewrites that are splices at those positions."""
