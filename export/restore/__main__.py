"""`python -m export.restore ARTIFACT --out DIR`: writes an artifact's weights as a sentence-transformers folder.

Use it to continue training when only the artifact is left (`base` of a configuration), or to run the model in
sentence-transformers. Weights keep their int8 rounding; recurrences are unrolled into layers. `--checkpoint` keeps the
word table as it is stored, for `continue_from` of a configuration.

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
from export.restore.source import UNREADABLE, WORDS, Source, open_source, restored_student, unreadable
from training.models.sentence_encoder import save_modules, save_sentence_encoder
from training.system.files import RECORD_FILE, write_json_atomically


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, 2 with the reason on stderr, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m export.restore", description="Turn an artifact back into a sentence-transformers folder."
    )
    parser.add_argument("artifact", type=Path, help="artifact folder, e.g. models/default")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; it must not exist")
    parser.add_argument("--checkpoint", action="store_true", help="write a checkpoint of crosslet, to train further")
    options = parser.parse_args(arguments)
    return status_of(lambda: restore(options.artifact, options.out, as_checkpoint=options.checkpoint))


def restore(artifact: Path, out: Path, *, as_checkpoint: bool = False) -> None:
    """Write `out`, if the restored model reproduces the parity pack's vectors to the pack's minimum cosine.

    Raises: ArtifactError: the artifact is damaged.
            BadRequest: `out` exists, or artifacts of this kind cannot be restored.
            Refused: the vectors differ.
    """
    if out.exists():
        raise BadRequest(f"{out} exists; choose another --out")
    source = open_source(artifact)
    write = write_checkpoint if as_checkpoint else write_transformer
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage = Path(scratch) / "new"
        write(source, stage)
        stage.rename(out)


def write_checkpoint(source: Source, folder: Path) -> None:
    """Write a checkpoint of this project."""
    manifest = source.manifest
    if manifest.prompts or manifest.truncate_dim is not None:
        raise BadRequest(f"{source.folder} has prompts or cuts its vectors; a checkpoint does neither")
    save_sentence_encoder(restored_student(source), source.tokenizer, folder, max_length=manifest.max_length)
    write_json_atomically(folder / RECORD_FILE, source.record())


def write_transformer(source: Source, folder: Path) -> None:
    """Write a folder of sentence-transformers, with words at full width."""
    manifest = source.manifest
    try:
        body, head = _body(source), source.head()
        lowest = source.check(lambda ids_1L: _embed(body, head, ids_1L))
    except UNREADABLE as exc:
        raise unreadable(source.folder, exc) from exc
    say(f"lowest cosine to the artifact's vectors {lowest:.4f} over {len(source.parity.texts)} texts")
    save_modules(
        body,
        source.tokenizer,
        folder,
        max_length=manifest.max_length,
        head=head,
        normalized=True,
        prompts=dict(manifest.prompts),
        default_prompt_name=manifest.default_prompt_name,
        truncate_dim=manifest.truncate_dim,
    )


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
