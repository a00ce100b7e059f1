"""What pyproject.toml cannot say: the wheel carries the folders runbooks/ and migrations/ inside `service`.

In a checkout they stay where people look for them, at the top; `service/resources.py` finds them in both places.
"""

from pathlib import Path

from setuptools import find_namespace_packages, setup

CARRIED = {"service._runbooks": "runbooks", "service._migrations": "migrations"}

packages = find_namespace_packages(include=["service", "service.*"], exclude=["*__pycache__*"])
for package, folder in CARRIED.items():
    if Path(folder).is_dir():
        inner = find_namespace_packages(where=folder, exclude=["*__pycache__*"])
        packages += [package, *(f"{package}.{name}" for name in inner)]

setup(packages=packages, package_dir={"service": "service", **CARRIED})
