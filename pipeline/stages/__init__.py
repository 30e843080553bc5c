"""The six stages, each a checkpoint: what it makes true, when that still holds, how it is made so."""
