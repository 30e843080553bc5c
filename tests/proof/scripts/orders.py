"""One process of the import order test: it runs a first import statement, then each second one in a fork of its own.

`orders.py FIRST [SECOND...]`: every fork takes one optimizer step and ends; prints JSON {second statement: pid of its
fork}.
"""

import importlib
import json
import os
import sys


def step():
    """One optimizer step through the names that a script would use."""
    torch = importlib.import_module("torch")

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def main():
    first, *seconds = sys.argv[1:]
    exec(first, {})
    leaves = {}
    for second in seconds:
        pid = os.fork()
        if pid == 0:
            exec(second, {})
            step()
            sys.exit(0)
        leaves[second] = pid
        os.waitpid(pid, 0)
    print(json.dumps(leaves))


if __name__ == "__main__":
    main()
