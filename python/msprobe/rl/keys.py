# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of keys by their names: their order in a step, and how they are compared."""

from __future__ import annotations

import re

# In the order in which a step comes to them. The first pattern that a name has somewhere counts.
_ORDER = (
    r"prompt|question",
    r"attention_mask|position_id",
    r"response_mask|loss_mask",
    r"response|completion|input_ids?$|tokens?$|answer",
    r"rollout.*log_?prob|behaviou?r.*log_?prob",
    r"reward|score",
    r"old.*log_?prob|actor.*log_?prob",
    r"ref.*log_?prob",
    r"log_?prob",
    r"value",
    r"return|advantage",
    r"kl|ratio|entropy",
    r"loss|grad",
)
_EXACT = re.compile(r"(.*_)?(ids|tokens?|masks?|prompts?|responses?|completions?)")
_LOG_PROBS = re.compile(r"log_?prob", re.IGNORECASE)
_ROLLOUT = re.compile(r"rollout|behaviou?r|inference|vllm|sglang", re.IGNORECASE)
_OTHER_POLICY = re.compile(r"ref", re.IGNORECASE)
_MASKS = ("response_mask", "loss_mask", "completion_mask")


def in_order(keys: list[str]) -> list[str]:
    """As a step comes to them; those of which nothing is known at the end, by name."""
    return sorted(keys, key=lambda key: (_place(key), key))


def _place(key: str) -> int:
    name = key.lower()
    return next((i for i, pattern in enumerate(_ORDER) if re.search(pattern, name)), len(_ORDER))


def is_exact(key: str) -> bool:
    """Whether its values are no measurements: tokens and masks, which mindstudio-probe saves as float32."""
    return _EXACT.fullmatch(key.lower()) is not None


def is_log_probs(key: str) -> bool:
    return _LOG_PROBS.search(key) is not None


def rollout_and_training(keys: list[str]) -> tuple[str, str] | None:
    """The log probabilities that the rollout gave to its tokens, and those of the same policy in the
    training; None: a record does not have both.
    """
    own = [key for key in in_order(keys) if is_log_probs(key) and not _OTHER_POLICY.search(key)]
    rollout = next((key for key in own if _ROLLOUT.search(key)), None)
    training = next((key for key in own if not _ROLLOUT.search(key)), None)
    return None if rollout is None or training is None else (rollout, training)


def mask_of(keys: list[str]) -> str:
    """Which tokens of the responses count; empty: no key says so."""
    return next((key for key in _MASKS if key in keys), "")
