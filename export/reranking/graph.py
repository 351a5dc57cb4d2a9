"""The whole cross-encoder as one module: segments, body, linear layer, sigmoid. Knows torch; knows nothing about ONNX.

Shapes: B pairs, L tokens, H hidden.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from export.unpadded import unpadded
from training.models.cross_encoder import CrossEncoder, segment_ids


class PairGraph(nn.Module):
    """What is traced: token ids of pairs in, scores out.

    Args: skip_padding: where the body is of a family that can.
    """

    def __init__(self, model: CrossEncoder, *, skip_padding: bool = True) -> None:
        super().__init__()
        self.body: Any = model.encoder
        self.config = self.body.config  # optimum reads the vocabulary size from it
        self.head = model.head
        self.has_segments, self.sep_id = model.has_segments, model.sep_id
        self.unpadded = unpadded(self.body) if skip_padding else None

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Score pairs.

        Args:    input_ids: (B, L) int64.  attention_mask: (B, L) int64, 1 = token, 0 = padding.
        Returns: (B, 1) float32, in [0, 1].
        """
        segment_ids_BL = segment_ids(input_ids, attention_mask, sep_id=self.sep_id) if self.has_segments else None
        hidden_BLH = self._hidden(input_ids, attention_mask, segment_ids_BL)
        score_B1: Tensor = self.head(hidden_BLH[:, 0]).sigmoid()
        return score_B1

    def _hidden(self, input_ids: Tensor, attention_mask: Tensor, segment_ids_BL: Tensor | None) -> Any:
        if self.unpadded is not None:
            return self.unpadded(input_ids, attention_mask, segment_ids_BL)
        body = getattr(self.body, "body", self.body)  # that of a student
        options = {} if segment_ids_BL is None else {"token_type_ids": segment_ids_BL}
        return body(input_ids=input_ids, attention_mask=attention_mask, **options).last_hidden_state

    @property
    def parameter_count(self) -> int:
        """Parameters, each shared one counted once."""
        return sum(parameter.numel() for part in (self.body, self.head) for parameter in part.parameters())
