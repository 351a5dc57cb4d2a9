"""The parity pack of a re-ranker: pairs of texts with what the model must give. Knows files; runs no model."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from service.errors import ArtifactError
from service.model.artifact import PARITY_FILE, read_part


@dataclass(frozen=True)
class PairParityPack:
    """Pairs in the model's languages with what the model made of them where it was exported.

    max_difference: of a score from the recorded one.
    pairs: query and passage.
    input_ids: one row of token ids a pair, specials included, cut to what the model reads.
    scores: in [0, 1].
    """

    schema_version: int
    max_difference: float
    pairs: tuple[tuple[str, str], ...]
    input_ids: tuple[tuple[int, ...], ...]
    scores: tuple[float, ...]

    def to_json(self) -> str:
        """Return the text of parity.json."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False) + "\n"


def load_pair_parity(folder: Path) -> PairParityPack:
    """Read a re-ranker's `parity.json`.

    Raises: ArtifactError: missing, not JSON, empty, or of unlike counts.
    """
    parity = read_part(folder, PARITY_FILE, PairParityPack)
    counts = (len(parity.pairs), len(parity.input_ids), len(parity.scores))
    if len(set(counts)) != 1 or not parity.pairs:
        raise ArtifactError(f"{folder}: {PARITY_FILE} has {counts[0]} pairs, {counts[1]} id rows, {counts[2]} scores")
    return parity
