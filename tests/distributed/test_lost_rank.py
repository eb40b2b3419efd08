"""A rank that has died is one sentence on the others."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from fairweight.errors import RankLost
from fairweight.ranks import Ranks


def test_a_rank_that_no_longer_answers_is_a_sentence_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def closed(*given: object, **_how: object) -> None:
        asked.append(given)
        raise RuntimeError("[pair.cc:553] Connection closed by peer [127.0.0.1]:38302")

    monkeypatch.setattr(dist, "all_gather", closed)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    ranks = Ranks(None, 0, 2, torch.device("cpu"))  # type: ignore[arg-type]
    with pytest.raises(RankLost, match="no longer answers"), ranks.together():
        ranks.agree()
    assert len(asked) == 1
