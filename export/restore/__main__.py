"""`python -m export.restore ARTIFACT --out DIR`: writes an artifact's weights as a sentence-transformers folder.

Use it to continue training when only the artifact is left (`base` of a configuration), or to run the model in
sentence-transformers. Weights keep their int8 rounding; recurrences are unrolled into layers.

Shapes: V vocabulary, L tokens, H hidden, D dims of the sentence embedding.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertModel

from export.__main__ import say, status_of
from export.errors import BadRequest
from export.restore.source import UNREADABLE, WORDS, Source, open_source, unreadable
from training.models.sentence_encoder import save_modules


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, 2 with the reason on stderr, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m export.restore", description="Turn an artifact back into a sentence-transformers folder."
    )
    parser.add_argument("artifact", type=Path, help="artifact folder, e.g. models/default")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; it must not exist")
    options = parser.parse_args(arguments)
    return status_of(lambda: restore(options.artifact, options.out))


def restore(artifact: Path, out: Path) -> None:
    """Write `out`, if the restored model reproduces the parity pack's vectors to the pack's minimum cosine.

    Raises: ArtifactError: the artifact is damaged.
            BadRequest: `out` exists, or artifacts of this kind cannot be restored.
            Refused: the vectors differ.
    """
    if out.exists():
        raise BadRequest(f"{out} exists; choose another --out")
    source = open_source(artifact)
    manifest = source.manifest
    try:
        body, head = _body(source), source.head()
        lowest = source.check(lambda ids_1L: _embed(body, head, ids_1L))
    except UNREADABLE as exc:
        raise unreadable(artifact, exc) from exc
    say(f"lowest cosine to the artifact's vectors {lowest:.4f} over {len(source.parity.texts)} texts")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage = Path(scratch) / "new"
        save_modules(
            body,
            source.tokenizer,
            stage,
            max_length=manifest.max_length,
            head=head,
            normalized=True,
            prompts=dict(manifest.prompts),
            default_prompt_name=manifest.default_prompt_name,
            truncate_dim=manifest.truncate_dim,
        )
        stage.rename(out)


def _body(source: Source) -> BertModel:
    """A BERT body with these weights, words at full width; the unused pooler of pre-training is zero."""
    state, projection_BH = dict(source.weights.state), source.weights.projection_BH
    if projection_BH is not None:
        state[f"{WORDS}.weight"] = state[f"{WORDS}.weight"] @ projection_BH
    body = BertModel(source.config())
    pooler = {name: np.zeros(value.shape, np.float32) for name, value in body.state_dict().items() if "pooler" in name}
    body.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in (state | pooler).items()})
    return body.eval()


def _embed(body: BertModel, head: nn.Linear | None, ids_1L: Tensor) -> Tensor:
    """The vector of one text, not normalised: (1, D)."""
    embedding_1H: Tensor = body(input_ids=ids_1L).last_hidden_state.mean(dim=1)
    return embedding_1H if head is None else head(embedding_1H)


if __name__ == "__main__":
    sys.exit(main())
