"""The only reasons for which a test of the lab may be skipped."""

import os
import shutil
from pathlib import Path

import pytest


def need_root() -> None:
    """Skip the test when it does not run as root, and say so."""
    if os.getuid() != 0:
        pytest.skip("needs root")


def need_fuse() -> None:
    """Skip the test where there is no root or no /dev/fuse, and say which."""
    need_root()
    if not Path("/dev/fuse").exists():
        pytest.skip("needs /dev/fuse, which is missing")


def need_kubectl() -> None:
    """Skip the test where there is no kubectl, and say so."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl (Debian: kubernetes-client)")


def need_chromium() -> None:
    """Skip the test where there is no Chromium, and say so."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
