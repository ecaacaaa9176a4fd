# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Credentials are hashed wherever they may come from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from config_check_packs import OURS, check_of, write_pack
from msprobe import ConfigChecker
from msprobe.config_check.collecting.hyperparameters import of_objects
from msprobe.files.credentials import concealed, hashed, is_secret

HYPER_PARAMETERS = "hyperparameters/hyperparameters_static.json"


@pytest.mark.parametrize(
    "name",
    ["API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN", "GITHUB_PAT",
     "DB_PASSWORD",
     "PGPASSWORD", "MYSQL_PWD", "passwd", "accessToken", "http-auth", "SENTRY_DSN", "client_secret", "apikey",
     "DB_PASS", "HFTOKEN", "SSHKEY", "SLACK_WEBHOOK", "MY_CREDENTIALS", "SESSION_COOKIE", "SSH_KEY",
     "PASSPHRASE", "wandb.api-key"],
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
        "BYPASS",
    ],
)
def test_other_names(name):
    assert not is_secret(name)
    assert concealed(name, "12345") == "12345"


@pytest.mark.parametrize(
    "name",
    ["num_tokens", "eos_token_id", "max-tokens", "qk_key_norm", "tokenizer-model", "eostoken", "single_pass"],
)
def test_tokens_of_a_text_are_no_credentials(name):
    assert not is_secret(name, of_model=True)


@pytest.mark.parametrize(
    ("value", "rest"),
    [("http://user:hunter22@proxy:80/x", "http://{}@proxy:80/x"),
     ("x hf_abcdefghijklmnopqrstuvwx y", "x {} y"),
     ("ghp_0123456789abcdefghij", "{}"), ("AKIAABCDEFGHIJKLMNOP", "{}"),
     ("http://user:p@ss:word@proxy:80/x@y", "http://{}@proxy:80/x@y"),
     ("https://0123abcd@host/simple", "https://{}@host/simple"),
     ("python t.py --lr 1 --api-key s3cr3t --bs 2", "python t.py --lr 1 --api-key {} --bs 2"),
     ("--password 'two words' x", "--password '{}' x"),
     ("export WANDB_API_KEY=s3cr3t; run", "export WANDB_API_KEY={}; run"),
     ("ALL,WANDB_API_KEY=s3cr3t", "ALL,WANDB_API_KEY={}"),
     ("https://host/x?token=s3cr3t&a=1", "https://host/x?token={}&a=1"),
     ("Server=db;Password=s3cr3t;x=1", "Server=db;Password={};x=1"),
     ('{"lr": 1, "password": "s3cr3t"}', '{"lr": 1, "password": "{}"}'),
     ("curl -H 'X-Api-Key: s3cr3t' x", "curl -H 'X-Api-Key: {}' x"),
     ("Authorization: Bearer s3cr3t", "Authorization: {}"),
     ("login(token='s3cr3t', lr=1)", "login(token='{}', lr=1)")],
)  # fmt: skip
def test_values_that_look_like_credentials(value, rest):
    found = concealed("SOME_URL", value)
    before, _, after = rest.rpartition("{}")
    assert found.startswith(before + "<secret ")
    assert found.endswith(after)


@pytest.mark.parametrize(
    "value",
    ["/opt/auth:/usr/bin:/a/token:/b", "--use-auth-token --lr 1", "--num-tokens 5 --eos_token=</s>",
     "ssh://git@host/x", "key words", "MONKEY=1"],
)  # fmt: skip
def test_other_values(value):
    assert concealed("X", value) == value


def test_equal_values_have_equal_hashes():
    assert hashed("a") == hashed("a") != hashed("b")


def test_hyperparameters():
    found = of_objects(
        {"wandb": {"api_key": "s3cr3t", "project": "x"}, "hf_token": 987654, "passwords": ["s3cr3t"]}
    )
    assert "s3cr3t" not in str(found)
    assert "987654" not in str(found)
    assert found["wandb.project"] == "x"
    assert "s3cr3t" not in str(of_objects({"token=s3cr3t": 1, "env": ["HF_TOKEN=s3cr3t"]}))


def test_a_pack_holds_none_of_them(tmp_path):
    secrets = {
        "MY_API_KEY": "hunter2hunter2",
        "PROXY": "http://joe:swordfish@x",
        "DB_PASSWORD": "correcthorse",
        "TRAIN_COMMAND": "python t.py --wandb-api-key batterystaple --lr 1",
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


def test_those_of_another_tool_go_no_further(tmp_path):
    """Its packs have them in clear; beside one of ours they are compared by their hashes."""
    environment = {"API_KEY": "hunter2hunter2", "NCCL_ALGO": "Ring"}
    theirs = write_pack(
        tmp_path / "theirs.zip",
        {"env": environment, HYPER_PARAMETERS: {"db-password": "swordfish", "pin_key": 12345678}},
    )
    hidden = {name: concealed(name, value) for name, value in environment.items()}
    ours = write_pack(
        tmp_path / "ours.zip",
        {
            **OURS,
            "env": hidden,
            HYPER_PARAMETERS: {"db-password": hashed("swordfish"), "pin_key": "<secret 0>"},
        },
    )
    result = ConfigChecker.compare(str(theirs), str(ours), str(tmp_path / "out"))
    assert [one.name for one in check_of(result, "hyperparameters").differences] == ["pin_key"]
    for path in filter(Path.is_file, (tmp_path / "out").rglob("*")):
        content = path.read_bytes()
        for value in (b"hunter2hunter2", b"swordfish", b"12345678"):
            assert value not in content, path
    assert json.loads((tmp_path / "out/bench/env").read_text())["NCCL_ALGO"] == "Ring"
