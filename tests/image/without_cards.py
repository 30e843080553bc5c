"""Read a compose file on stdin and print it without cards, after checking what its services publish and request."""

import sys
from typing import Any

import yaml

file: dict[str, Any] = yaml.safe_load(sys.stdin)
for name, service in file["services"].items():
    (port,) = service["ports"]
    assert str(port).startswith("127.0.0.1:"), f"{name} publishes {port}"
    assert "@sha256:" in service["build"]["args"]["BASE_IMAGE"], service["build"]
devices = file["services"]["gpu-box"].pop("deploy")["resources"]["reservations"]["devices"]
assert devices == [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}], devices
yaml.safe_dump(file, sys.stdout)
