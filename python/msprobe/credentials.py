# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Credentials never reach a pack: of their values a hash is written, so that two runs can still be compared.

What is a credential is told by the name, and by values that look like the tokens of well-known services.
"""

from __future__ import annotations

import hashlib
import re

# Anywhere in a name.
_PARTS = re.compile(
    r"passw|passphrase|passcode|secret|credential|(api|private|access)[_.-]?key", re.IGNORECASE
)
# As a word of a name: API_KEY, accessToken, http-auth; not TOKENIZERS_PARALLELISM or PWD, the folder.
_WORDS = frozenset(
    ("auth", "authorization", "bearer", "cookie", "dsn", "jwt", "key", "keys", "pat", "pw", "pwd", "sas",
     "signature", "token", "tokens", "webhook")
)  # fmt: skip
# Words beside "token" and "key" that tell a setting of a model: num_tokens, eos_token_id, query_key_norm.
_OF_A_MODEL = frozenset(
    ("add", "additional", "attention", "bos", "chunk", "cls", "count", "drop", "dropout", "eod", "eos",
     "extra", "fraction", "head", "heads", "id", "ids", "image", "layernorm", "length", "level", "mask",
     "max", "min", "moe", "norm", "num", "pad", "padding", "per", "prompt", "qk", "query", "sep", "size",
     "special", "text", "train", "unk", "value", "value_", "values", "vocab", "warmup")
)  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9]+")
_FOLDERS = frozenset(("PWD", "OLDPWD"))

_IN_VALUES = re.compile(
    r"(?<=://)[^/@\s:]*:[^/@\s]*(?=@)"  # user:password of an address
    r"|\b(?:hf_|sk-|sk_live_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-)[A-Za-z0-9_-]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    re.DOTALL,
)

# Slow on purpose: the hash of a short password must not give it away at once.
_ROUNDS = 20_000
_SALT = b"msprobe config check"


def is_secret(name: str, *, of_model: bool = False) -> bool:
    """Whether `name` looks like that of a credential. `of_model`: it is a hyper-parameter, where tokens are
    mostly those of a text.
    """
    if _PARTS.search(name):
        return True
    words = {word.lower() for word in _NOT_A_WORD.split(_CAMEL.sub("_", name))}
    if name in _FOLDERS or not words & _WORDS:
        return False
    return not (of_model and words & _OF_A_MODEL)


def hashed(value: str) -> str:
    """What stands for a credential: equal for equal values."""
    digest = hashlib.pbkdf2_hmac("sha256", value.encode("utf-8", "surrogateescape"), _SALT, _ROUNDS)
    return f"<secret {digest.hex()[:16]}>"


def concealed(name: str, value: str, *, of_model: bool = False) -> str:
    """`value` as it may be written down."""
    if is_secret(name, of_model=of_model):
        return hashed(value)
    return _IN_VALUES.sub(lambda match: hashed(match[0]), value)
