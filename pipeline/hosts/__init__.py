"""Operations on a configured host: connecting, opening a run, following its job, downloading its results."""
