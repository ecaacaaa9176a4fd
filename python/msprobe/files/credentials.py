# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Credentials never reach a file: of their values a hash is written, so that two runs can still be compared.

What is a credential is told by the name, also by one inside a value (a command line, JSON, a query, a line of
code), by values that look like the tokens of well-known services, and by values that look random, whatever
their name. Everything of a user's environment, command line or source code that is written down goes through
concealed(), concealed_in() or concealed_words().
"""

from __future__ import annotations

import functools
import hashlib
import linecache
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Anywhere in a name.
_PARTS = re.compile(
    r"passw|passphrase|passcode|secret|credential|(api|private|access)[_.-]?key", re.IGNORECASE
)
# As a word of a name: API_KEY, accessToken, http-auth; not TOKENIZERS_PARALLELISM or PWD, the folder.
_WORDS = frozenset(
    ("auth", "authorization", "bearer", "cookie", "cred", "creds", "dsn", "jwt", "key", "keys", "netrc",
     "otp", "pass", "pat", "pw", "pwd", "sas", "sig", "signature", "token", "tokens", "webhook")
)  # fmt: skip
# Two words written as one: HFTOKEN, SSHPASS, MYAUTH.
_GLUED = re.compile(
    r"(.+)(auth|creds?|netrc|pass|pwd|secrets?|tokens?)"
    r"|(api|auth|enc|encryption|host|license|master|my|private|service|shared|signing|ssh|storage)(keys?)"
)
# Words of other meanings that end so.
_ONE_WORD = re.compile(r".*(by|com|multi|one|single|sur|tres|two|under|over|fore)pass")
# Words beside "token", "key" and "pass" that tell a setting of a model: num_tokens, query_key_norm.
_OF_A_MODEL = frozenset(
    ("add", "additional", "attention", "backward", "bos", "chunk", "cls", "count", "drop", "dropout", "eod",
     "eos", "error", "extra", "forward", "fraction", "head", "heads", "id", "ids", "image", "layernorm",
     "length", "level", "mask", "max", "min", "moe", "multi", "norm", "num", "pad", "padding", "per",
     "prompt", "qk", "query",
     "sep", "single", "size", "special", "text", "through", "train", "unk", "value", "value_",
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

# What may be a random text, and the words of it: as people write several as one, a capital begins one.
_MAY_BE_RANDOM = re.compile(r"(?<![\w./+=-])[A-Za-z0-9+=_-][A-Za-z0-9+/=_-]{19,}(?![\w.])")
_IN_ADDRESS = re.compile(r"(?<=://)[^\s\"'<>]+")
_IN_PATH = re.compile(r"[A-Za-z0-9+=_-]{20,}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_RUN = re.compile(r"[A-Za-z0-9+]{16,}")
# Words of English have some five letters. Those of a random text of letters and digits have two: of 2,000
# such texts of 32 characters 99.6 % are below three, of hexadecimal digits 96 %, of base 36 83 %, of base 32
# 51 %.
_SHORT_WORDS = 3.0

# A text in a line of code, and the name that it gets: token="x", "token": "x", os.environ["TOKEN"] = "x".
_LITERAL = re.compile(r"(?P<quote>\"{3}|'{3}|\"|')(?P<text>(?:(?!(?P=quote))[^\\]|\\.)*)(?P=quote)")
_NAMES = re.compile(r"([A-Za-z_][\w.-]{0,99})[\"']{0,3}\]?\s*[=:]\s*$")

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
    for word in [word for word in words if not _ONE_WORD.fullmatch(word)]:
        if match := _GLUED.fullmatch(word):
            words.update(filter(None, match.groups()))
    if name in _FOLDERS or not words & _WORDS:
        return False
    return not (of_model and words & _OF_A_MODEL)


@functools.lru_cache(maxsize=1024)
def hashed(value: str) -> str:
    """What stands for a credential: equal for equal values."""
    digest = hashlib.pbkdf2_hmac("sha256", value.encode("utf-8", "surrogateescape"), _SALT, _ROUNDS)
    return f"<secret {digest.hex()[:16]}>"


def looks_random(text: str) -> bool:
    """Whether it has letters and digits as nobody writes them: a key, a token, the hash of something."""
    run = _RUN.search(text)
    if run is None or not any(map(str.isdigit, text)) or not any(map(str.isalpha, text)):
        return False
    words = _WORD.findall(text)
    return sum(map(len, words)) < _SHORT_WORDS * len(words)


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
    found = _IN_VALUES.sub(lambda match: hashed(match[0]), "".join(parts))
    found = _IN_ADDRESS.sub(lambda match: _IN_PATH.sub(_hashed_if_random, match[0]), found)
    return _MAY_BE_RANDOM.sub(_hashed_if_random, found)


@functools.lru_cache(maxsize=4096)
def concealed_argument(name: str, text: str) -> str:
    """A text that a function is given by a name (or none), and may be given again and again."""
    return concealed(name, text, of_model=True)


def concealed_words(words: Sequence[str]) -> list[str]:
    """A command line: also what stands behind an option such as --api-key."""
    result = []
    hide_next = False
    for word in words:
        name, equals, value = word.partition("=")
        hides = word.startswith("-") and is_secret(name.lstrip("-"), of_model=True)
        if hide_next and not word.startswith("-"):
            result.append(hashed(word))
        else:
            result.append(f"{name}={hashed(value)}" if hides and equals else concealed_in(word))
        hide_next = hides and not equals
    return result


def source_line(file: str, line: int) -> str:
    """A line of the program, as it may be written down; "" where there is none."""
    return concealed_code(linecache.getline(file, line).strip())


def concealed_code(line: str) -> str:
    """A line of code: what is a credential there, stands in quotes."""
    parts = []
    end = 0
    for literal in _LITERAL.finditer(line):
        name = _NAMES.search(line, 0, literal.start())
        text = concealed(name[1] if name else "", literal["text"], of_model=True)
        parts += [line[end : literal.start("text")], text]
        end = literal.end("text")
    return "".join([*parts, line[end:]])


def _hashed_if_random(match: re.Match[str]) -> str:
    return hashed(match[0]) if looks_random(match[0]) else match[0]


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
