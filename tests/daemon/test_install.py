"""`holdfast install` refuses programs that other users can change."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest

from holdfast.agent import install


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that root trusts")
def test_a_program_that_others_can_change_is_refused():
    """A directory that others may write is refused, one below it, and one that a link leads to."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # its parents belong to root and are sticky
        top = Path(name)
        (top / "open" / "bin").mkdir(parents=True)
        (top / "safe").mkdir()
        (top / "open").chmod(0o777)
        (top / "link").symlink_to(top / "open" / "bin")

        install._require_safe(top / "safe")
        for place in ("open/bin", "link"):
            with pytest.raises(
                install.InstallError, match=re.escape(f"users other than root can change {top / 'open'}")
            ):
                install._require_safe(top / "safe", top / place)
