# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Credentials are hashed wherever they may come from."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest
from msprobe.config_check.hyperparameters import of_objects
from msprobe.credentials import concealed, hashed, is_secret


@pytest.mark.parametrize(
    "name",
    ["API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN", "GITHUB_PAT",
     "DB_PASSWORD",
     "PGPASSWORD", "MYSQL_PWD", "passwd", "accessToken", "http-auth", "SENTRY_DSN", "client_secret", "apikey",
     "SLACK_WEBHOOK", "MY_CREDENTIALS", "SESSION_COOKIE", "SSH_KEY", "PASSPHRASE", "wandb.api-key"],
)  # fmt: skip
def test_names_of_credentials(name):
    assert is_secret(name)
    assert is_secret(name, of_model=True)
    assert concealed(name, "12345") == hashed("12345")
    assert "12345" not in concealed(name, "12345")


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PWD",
        "OLDPWD",
        "TOKENIZERS_PARALLELISM",
        "KEYBOARD",
        "NCCL_ALGO",
        "AUTHOR",
        "PATTERN",
        "MONKEY",
    ],
)
def test_other_names(name):
    assert not is_secret(name)
    assert concealed(name, "12345") == "12345"


@pytest.mark.parametrize(
    "name", ["num_tokens", "eos_token_id", "max-tokens", "qk_key_norm", "tokenizer-model"]
)
def test_tokens_of_a_text_are_no_credentials(name):
    assert not is_secret(name, of_model=True)


@pytest.mark.parametrize(
    ("value", "rest"),
    [("http://user:hunter22@proxy:80/x", "http://{}@proxy:80/x"),
     ("x hf_abcdefghijklmnopqrstuvwx y", "x {} y"),
     ("ghp_0123456789abcdefghij", "{}"), ("AKIAABCDEFGHIJKLMNOP", "{}")],
)  # fmt: skip
def test_values_that_look_like_credentials(value, rest):
    found = concealed("SOME_URL", value)
    before, after = rest.split("{}")
    assert found.startswith(before + "<secret ")
    assert found.endswith(after)


def test_equal_values_have_equal_hashes():
    assert hashed("a") == hashed("a") != hashed("b")


def test_hyperparameters():
    found = of_objects(
        {"wandb": {"api_key": "s3cr3t", "project": "x"}, "hf_token": 987654, "passwords": ["s3cr3t"]}
    )
    assert "s3cr3t" not in str(found)
    assert "987654" not in str(found)
    assert found["wandb.project"] == "x"


def test_a_pack_holds_none_of_them(tmp_path):
    secrets = {
        "MY_API_KEY": "hunter2hunter2",
        "PROXY": "http://joe:swordfish@x",
        "DB_PASSWORD": "correcthorse",
    }
    script = tmp_path / "train.sh"
    script.write_text("torchrun t.py --wandb-api-key batterystaple --url https://joe:swordfish@x --lr 1")
    command = [sys.executable, "-m", "msprobe", "config_check", "-d", script, "-o", tmp_path / "p.zip"]
    subprocess.run(command, env={**os.environ, **secrets}, check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / "p.zip") as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist())
    assert "MY_API_KEY" in text
    assert "wandb-api-key" in text
    for value in ("hunter2hunter2", "swordfish", "correcthorse", "batterystaple"):
        assert value not in text
