"""Small projects, one per way in which a program reads its precision. Each prints the dtype that it selects."""
