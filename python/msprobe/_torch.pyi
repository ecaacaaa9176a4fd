"""Native adapter to the torch of this environment; import it after torch."""

import os
from collections.abc import Sequence
from typing import Any, Literal, final

import torch

built_with_torch: str

def summarize(
    tensor: torch.Tensor,
    *,
    checksum: Literal["none", "native", "float32"] = "none",
    bounds: Sequence[float] = ...,
    signs: bool = False,
    threads: int = 1,
    device_path: bool = False,
) -> dict[str, float | int | bytes | list[int] | None]: ...

@final
class GradProbe:
    def __init__(
        self,
        named_parameters: Sequence[tuple[str, torch.Tensor]],
        dump_path: str | os.PathLike[str],
        *,
        rank: int = 0,
        level: Literal["L0", "L1", "L2"] = "L1",
        bounds: Sequence[tuple[float, str]] = ...,
        steps: Sequence[int] = ...,
        threads: int = 0,
    ) -> None: ...
    def on_optimizer_step(self, optimizer: object, args: Any = ..., kwargs: Any = ...) -> None: ...
    def flush(self) -> int: ...
    @property
    def steps_seen(self) -> int: ...
    @property
    def local_shards(self) -> list[str]: ...
