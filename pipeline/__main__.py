"""`python -m pipeline` is `pipeline`."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
