# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sixty secrets lie around a training: none is in a file that it leaves, in a pack or on a page."""

from __future__ import annotations

import base64
import json
import os
import random
import string
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from msprobe.cli import main

CHANCE = random.Random(60)


def characters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(CHANCE.choice(alphabet) for _ in range(count))


def word() -> str:
    """As people choose a password; told by its name alone."""
    return "planted-" + characters(6, string.ascii_lowercase)


NAMED = {
    name: word()
    for name in (
        "SSHPASS", "MYAUTH", "PGPASSWORD", "PGPASS", "MYSQL_PWD", "NETRC", "GITHUBTOKEN", "HF_TOKEN",
        "WANDB_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "DB_PASS",
        "REDIS_AUTH", "SMTPPASS",
        "APP_JWT", "SESSION_COOKIE", "SENTRY_DSN", "SLACK_WEBHOOK", "NPM_TOKEN", "GPG_PASSPHRASE",
        "SIGNINGKEY", "ENCRYPTION_KEY", "MY_CREDS", "LDAP_PW", "PRIVATE_KEY", "STORAGE_SAS", "SERVICE_KEY",
        "clientsecret", "proxyauth",
    )
}  # fmt: skip
KUBE = base64.b64encode(b"users:\n- name: me\n  user:\n    client-key: nobody-knows-this\n").decode()
# Names tell nothing; the secret is (a part of) the value.
UNNAMED = {
    "TORCH_X": (value := characters(32), value),
    "BUILD": (value := characters(40, "0123456789abcdef"), value),
    "KUBE_CONFIG_DATA": (KUBE, KUBE.rstrip("=")),
    "MODEL_SOURCE": (f"https://joe:{(value := word())}@host/model", value),
    "INDEX": (f"https://{(value := word())}@host/simple", value),
    "CALL": (f"https://hooks.host/services/T01/B02/{(value := characters(24))}", value),
    "FETCH": (f"https://host/x?sig={(value := word())}&lr=1", value),
    "LAUNCH": (f"train.sh --password {(value := word())} --lr 1", value),
    "EXTRA": (json.dumps({"lr": 1, "password": (value := word())}), value),
    "HEADER": (f"Authorization: Bearer {(value := word())}", value),
    "A": (value := "ghp_" + characters(36), value),
    "B": (value := "AKIA" + characters(16, string.ascii_uppercase), value),
    "C": (f"Server=db;Password={(value := word())};x=1", value),
}
WORDS = [
    ("--url", f"https://joe:{(secret := word())}@host/x", secret),
    ("--api-key", secret := word(), secret),
    (f"--password={(secret := word())}", "", secret),
    ("--wandb_token", secret := word(), secret),
    ("--sshpass", secret := word(), secret),
    ("--auth", secret := word(), secret),
    ("--note", secret := characters(40), secret),
    (secret := characters(32), "", secret),
    ("--data", f"s3://x?token={(secret := word())}", secret),
    ("--env", f"HF_TOKEN={(secret := word())}", secret),
]
IN_CODE = {name: word() for name in ("token", "password", "url")} | {"plain": characters(32)}
OF_WEBHOOK = [word(), characters(24), word()]

SCRIPT = f"""
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
for name in ("url", "api-key", "password", "wandb_token", "sshpass", "auth", "note", "data", "env"):
    parser.add_argument("--" + name)
parser.add_argument("rest")
args = parser.parse_args()
settings = {{"password": args.password, "url": args.url, "lr": 0.1}}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, **_):
        return torch.relu(self.fc(x))


def step(x, **named):
    return model(x, **named)


torch.manual_seed(1)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    a = step(torch.randn(2, 4), token="{IN_CODE["token"]}")
    b = step(torch.randn(2, 4), **{{"password": "{IN_CODE["password"]}"}})
    c = step(torch.randn(2, 4), url="https://joe:{IN_CODE["url"]}@host", plain="{IN_CODE["plain"]}")
    loss = (a + b + c).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def content_of(folder: Path) -> dict[str, bytes]:
    """All that is written below a folder, also inside of archives."""
    found = {}
    for path in filter(Path.is_file, folder.rglob("*")):
        found[str(path)] = path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                found.update({f"{path}!{name}": archive.read(name) for name in archive.namelist()})
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "train.py").write_text(SCRIPT)
    user, path, query = OF_WEBHOOK
    alarm = {"webhook": f"http://joe:{user}@127.0.0.1:9/{path}?token={query}"}
    config = {
        "task": "statistics",
        "level": "mix",
        "dump_path": "dump",
        "monitor": {"alarm": alarm, "quantities": ["gradient"]},
    }
    (folder / "config.json").write_text(json.dumps(config))
    words = [part for before, behind, _ in WORDS for part in (before, behind) if part]
    environment = {**os.environ, **NAMED, **{name: value for name, (value, _) in UNNAMED.items()}}
    for name, more in (("a", ["--monitor"]), ("b", ["-c", "config.json", "--monitor"])):
        command = [sys.executable, "-m", "msprobe", "run", "-o", f"results/{name}", *more, "train.py", *words]
        subprocess.run(command, env=environment, check=True, capture_output=True, cwd=folder)
    results = folder / "results"
    assert main(["diagnose", str(results / "a"), str(results / "b"), "-o", str(results / "answer")]) in (0, 1)
    assert main(["graph", str(results / "a" / "dump"), "-o", str(results / "graph")]) == 0
    graph = next((results / "graph").glob("*.vis.db"))
    assert main(["view", str(graph), "--export", str(results / "page.html")]) == 0
    return content_of(results)


def test_what_would_hold_them_is_there(written):
    text = b"\n".join(written.values())
    for name in (*NAMED, *UNNAMED, "--wandb_token", "step(torch.randn(2, 4), token="):
        assert name.encode() in text
    assert len(NAMED) + len(UNNAMED) + len(WORDS) + len(IN_CODE) + len(OF_WEBHOOK) == 60


@pytest.mark.parametrize(
    ("kind", "secrets"),
    [
        ("variables with telling names", NAMED),
        ("variables with other names", {name: secret for name, (_, secret) in UNNAMED.items()}),
        ("the command line", {before: secret for before, _, secret in WORDS}),
        ("lines of code", IN_CODE),
        ("the configuration", dict(enumerate(OF_WEBHOOK))),
    ],
)
def test_none_of_them_is_written(written, kind, secrets):
    found = [
        (name, place)
        for name, secret in secrets.items()
        for place, content in written.items()
        if secret.encode() in content
    ]
    assert found == []
