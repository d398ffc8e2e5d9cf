"""The check that a machine makes sees what a user's machine would see, and nothing of its own."""

import os
import subprocess
from pathlib import Path

RUN = Path(__file__).parents[2] / ".ci" / "run"


def test_make_test_is_called_in_an_almost_empty_environment(tmp_path):
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "called with $*"\nenv\n')
    make.chmod(0o755)
    kept = {
        "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "LANG": "C.UTF-8",
        "PIP_CONFIG_FILE": "/a file", "HTTPS_PROXY": "http://127.0.0.1:1", "SSL_CERT_FILE": "/certs",
        "CI": "1", "REQUESTS_CA_BUNDLE": "/certs", "TMPDIR": str(tmp_path),
    }  # fmt: skip
    hidden = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": "/elsewhere",
        "OPENAI_API_KEY": "sk-1",
        "PIPE": "x",
    }
    done = subprocess.run([RUN], env={**kept, **hidden}, capture_output=True, text=True, check=True)
    first, *lines = done.stdout.splitlines()
    assert first == "called with test"
    found = dict(line.split("=", 1) for line in lines)
    assert {name: found.get(name) for name in kept} == kept
    assert found.keys() - kept.keys() <= {"PWD", "SHLVL", "_", "OLDPWD"}
