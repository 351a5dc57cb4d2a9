"""The word loss of stage 4: a word has the embedding that the teacher gives, in context, to its English counterpart.

A sentence's embedding does not say which of its words means what; where there is little text, sentences are learnt by
heart. After Cao, Kitaev and Klein 2020, "Multilingual Alignment of Contextual Word Representations" (ICLR), whose
aligned words are drawn to each other; here the English side is the frozen teacher's.

Shapes: T tokens of a batch, N links of a batch, H hidden, D dims of the teacher's token embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from sentence_transformers.util import batch_to_device
from torch import Tensor

from training.corpora.corpus import Corpus
from training.errors import ConfigError
from training.losses import word_alignment
from training.processes import sum_over_processes
from training.sentence import SentenceEncoder
from training.stages.pairs import TokenEmbeddings, groups_of
from training.word_links import LONGEST, WordLinks, ranges


@dataclass(frozen=True)
class WordTeacher:
    """The teacher's embeddings of English words, and which words of other languages stand for them.

    Args: max_length: tokens of the other side, while training; words behind them have no loss.
          weight: of this loss beside the others.
    """

    teacher: SentenceTransformer
    corpus: Corpus
    links: WordLinks
    max_length: int
    weight: float

    def __post_init__(self) -> None:
        self.teacher.eval().requires_grad_(False)

    def loss(self, student: SentenceEncoder, pairs_B: NDArray[np.int64], tokens: TokenEmbeddings) -> Tensor:
        """Squared distance of linked words' embeddings, mean over a pair's links, then over the batch; weighed.

        A pair without links counts as 0. Of several processes each adds the pairs whose other side it encoded.

        Args: pairs_B: of a batch, or some of it.  tokens: of the whole batch.
        """
        first_B = tokens.first_rows(self.corpus.other[pairs_B])
        own_B = np.flatnonzero(first_B >= 0)
        links_N4, pair_N = self.links.of(pairs_B[own_B])
        is_seen = links_N4[:, 1] < self.max_length  # before the closing token, wherever the text was cut
        links_N4, pair_N = links_N4[is_seen], own_B[pair_N[is_seen]]
        if not len(pair_N):
            return sum_over_processes(torch.zeros((), device=self.teacher.device))
        english_N = self.corpus.english[pairs_B[pair_N]]
        targets = self._encode(np.unique(english_N))
        student_NH = span_means(tokens, first_B[pair_N] + links_N4[:, 0], links_N4[:, 1] - links_N4[:, 0])
        first_N = targets.first_rows(english_N)
        target_ND = span_means(targets, first_N + links_N4[:, 2], links_N4[:, 3] - links_N4[:, 2])
        weight_N = torch.from_numpy(self.weight / (np.bincount(pair_N)[pair_N] * len(pairs_B))).to(target_ND)
        return sum_over_processes(word_alignment(student.project(student_NH), target_ND, weight_N))

    @torch.no_grad()
    def _encode(self, english_U: NDArray[np.int32]) -> TokenEmbeddings:
        """The teacher's token embeddings of English texts."""
        texts = [self.corpus.texts[int(text)] for text in english_U]
        by_length = np.argsort([len(text) for text in texts], kind="stable")
        groups, masks = [], []
        for group in groups_of(by_length, self.teacher.device):
            batch = batch_to_device(self.teacher.preprocess([texts[row] for row in group]), self.teacher.device)
            groups.append(self.teacher[0](batch)["token_embeddings"])
            masks.append(batch["attention_mask"])
        return TokenEmbeddings(english_U[by_length], groups, masks)


def token_limit(teacher: SentenceTransformer) -> int:
    """Tokens after which the teacher cuts a text, specials included."""
    return int(min(teacher.max_seq_length or LONGEST, LONGEST))


def check_word_teacher(teacher: SentenceTransformer) -> None:
    """Whether a teacher's token embeddings are in the space of its sentence embeddings, and its words can be found.

    Raises: ConfigError: its sentence embedding is not the mean of its token embeddings, it puts a prompt before a text,
        it cuts its sentence embeddings, or its tokenizer does not say which characters a token is.
    """
    match list(teacher)[1:]:
        case [Pooling(pooling_mode="mean"), *rest] if all(isinstance(module, Normalize) for module in rest):
            pass
        case _:
            raise ConfigError(
                "word_weight needs a teacher whose sentence embedding is the mean of its token embeddings"
            )
    if teacher.default_prompt_name is not None:
        raise ConfigError(f"word_weight needs a teacher without a default prompt, not {teacher.default_prompt_name!r}")
    if teacher.truncate_dim is not None:
        raise ConfigError(f"word_weight needs a teacher with all of its dims, not the first {teacher.truncate_dim}")
    if not teacher.tokenizer.is_fast:
        raise ConfigError("word_weight needs a teacher whose tokenizer says where its tokens stand (a fast one)")


def span_means(tokens: TokenEmbeddings, starts: NDArray[np.int64], counts: NDArray[np.int64]) -> Tensor:
    """Mean of `counts[i]` tokens from `starts[i]` on in `flat`: (N, H) float32."""
    states_TH = tokens.flat()
    device = states_TH.device
    span_R = torch.from_numpy(np.repeat(np.arange(len(starts)), counts)).to(device)
    rows_RH = states_TH[torch.from_numpy(ranges(starts, counts)).to(device)].float()
    sums_NH = rows_RH.new_zeros(len(starts), states_TH.shape[1]).index_add(0, span_R, rows_RH)
    return sums_NH / torch.from_numpy(counts).to(device).unsqueeze(1)
