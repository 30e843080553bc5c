"""Small projects, one per way in which a program reads its precision; each prints the dtype that it selects."""
