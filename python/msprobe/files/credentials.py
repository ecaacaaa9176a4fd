# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Credentials never reach a pack: of their values a hash is written, so that two runs can still be compared.

What is a credential is told by the name, also by one inside a value (a command line, JSON, a query), and by
values that look like the tokens of well-known services.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Any

# Anywhere in a name.
_PARTS = re.compile(
    r"passw|passphrase|passcode|secret|credential|(api|private|access)[_.-]?key", re.IGNORECASE
)
# As a word of a name: API_KEY, accessToken, http-auth; not TOKENIZERS_PARALLELISM or PWD, the folder.
_WORDS = frozenset(
    ("auth", "authorization", "bearer", "cookie", "dsn", "jwt", "key", "keys", "pass", "pat", "pw", "pwd",
     "sas", "sig", "signature", "token", "tokens", "webhook")
)  # fmt: skip
# Two words written as one: HFTOKEN, sshkey.
_GLUED = re.compile(
    r"(.+)(tokens?)|(auth|license|master|service|shared|signing|ssh|storage)(keys?)|(admin|db|root|smtp)(pass)"
)
# Words beside "token", "key" and "pass" that tell a setting of a model: num_tokens, query_key_norm.
_OF_A_MODEL = frozenset(
    ("add", "additional", "attention", "backward", "bos", "chunk", "cls", "count", "drop", "dropout", "eod",
     "eos", "extra", "forward", "fraction", "head", "heads", "id", "ids", "image", "layernorm", "length",
     "level", "mask", "max", "min", "moe", "multi", "norm", "num", "pad", "padding", "per", "prompt", "qk",
     "query", "sep", "single", "size", "special", "text", "through", "train", "unk", "value", "value_",
     "values", "vocab", "warmup")
)  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9]+")
_FOLDERS = frozenset(("PWD", "OLDPWD"))

_IN_VALUES = re.compile(
    r"(?<=://)[^/@\s:]*:[^/\s]*(?=@)"  # user:password of an address
    r"|(?:(?<=http://)|(?<=https://))[^/@\s:]+(?=@)"  # a token in its place
    r"|(?<=\bBearer )[^\s\"']+"
    r"|\b(?:hf_|sk-|sk_live_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-)[A-Za-z0-9_-]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    re.DOTALL,
)
# A name inside a value, and what parts it from its own: NAME=x, --name x, "name": "x", Name: x. A name after
# a slash is part of a path, as are those between the colons of PATH.
_NAME = re.compile(
    r"(?<![\w./-])(?P<dashes>--?)?(?P<name>[A-Za-z_][\w.-]{0,99})"
    r"(?:\\*[\"']?\s*=\s*|\\*[\"']\s*:\s*|:\s+|(?P<colon>:)|(?(dashes)\s+(?!-)|(?!)))"
)
_VALUE = re.compile(
    r"(?:(?:Basic|Bearer|Digest|Token)\s+)?"
    r"(?:\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)'|\\*[\"']?[^\s\"'&;,}\])\\]+)",
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
    for match in filter(None, map(_GLUED.fullmatch, tuple(words))):
        words.update(filter(None, match.groups()))
    if name in _FOLDERS or not words & _WORDS:
        return False
    return not (of_model and words & _OF_A_MODEL)


@functools.lru_cache(maxsize=1024)
def hashed(value: str) -> str:
    """What stands for a credential: equal for equal values."""
    digest = hashlib.pbkdf2_hmac("sha256", value.encode("utf-8", "surrogateescape"), _SALT, _ROUNDS)
    return f"<secret {digest.hex()[:16]}>"


def concealed(name: str, value: str, *, of_model: bool = False) -> str:
    """`value` as it may be written down."""
    if is_secret(name, of_model=of_model):
        return hashed(value)
    return concealed_in(value)


def concealed_in(text: str) -> str:
    """A text that is no credential, without those that are in it."""
    parts = []
    at = end = 0
    while name := _NAME.search(text, at):
        at = name.end()
        weak = name["colon"] and not _PARTS.search(name["name"])
        value = None if weak or not is_secret(name["name"], of_model=True) else _VALUE.match(text, at)
        if value is not None:
            group = value.lastgroup or 0  # quotes stay
            parts += [text[end : value.start(group)], hashed(value[group])]
            end, at = value.end(group), value.end()
    parts.append(text[end:])
    return _IN_VALUES.sub(lambda match: hashed(match[0]), "".join(parts))


def concealed_tree(name: str, tree: Any, *, of_model: bool = False) -> Any:
    """A value as JSON has it, of which concealed() made what is text; numbers may be credentials, too."""
    if isinstance(tree, str):
        return concealed(name, tree, of_model=of_model)
    if isinstance(tree, list):
        return [concealed_tree(name, item, of_model=of_model) for item in tree]
    if isinstance(tree, dict):
        return {key: concealed_tree(name, value, of_model=of_model) for key, value in tree.items()}
    is_number = isinstance(tree, (int, float)) and not isinstance(tree, bool)
    return hashed(str(tree)) if is_number and is_secret(name, of_model=of_model) else tree
