"""The lexical start: word embeddings for a new vocabulary from parallel text, before any gradient step.

Shapes: N sentences, V new vocabulary, T the teacher's vocabulary, H hidden.

The mean input embedding of a sentence in any language should be that of its English side in the teacher:
(A E)_n ~ y_n with A (N x V) the bag of new tokens of sentence n over its length, y_n the mean of the teacher's word
embeddings over the English tokens. Ridge regression towards a prior E_0 (tokens that the teacher knows too):

    min_E  ||A E - Y||^2 + r w ||E - E_0||^2,   w the mean squared weight of a token in a sentence

solved by conjugate gradients with a diagonal preconditioner, all H columns at once. Not in the paper.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from training.vocabulary.tokenizer import CLS, MASK, PAD, SEP, UNK, WORD_START
from training.vocabulary.tokens import TokenStore

BYTE_LEVEL = "Ġ"  # a space in a byte-level vocabulary
TOKENIZE_CHUNK = 10_000
MAX_TOKENS = 128  # of an English text, in the teacher's tokens


def text_bags(tokens: TokenStore, texts: NDArray[np.int32], vocab_size: int) -> csr_matrix:
    """`bags_of` the texts, without [CLS] and [SEP]."""
    return bags_of([tokens.ids[tokens.offsets[text] + 1 : tokens.offsets[text + 1] - 1] for text in texts], vocab_size)


def bags_of(rows: Sequence[Sequence[int] | NDArray[np.int32]], vocab_size: int) -> csr_matrix:
    """Each row of token ids as counts over its length: (N, V) float32."""
    lengths = np.array([len(row) for row in rows])
    weights = np.repeat(1.0 / np.maximum(lengths, 1), lengths).astype(np.float32)
    row_index = np.repeat(np.arange(len(rows)), lengths)
    # scipy sums a token's repeats in a sentence: CSR needs distinct columns
    columns = np.concatenate(rows).astype(np.int64)
    return csr_matrix((weights, (row_index, columns)), shape=(len(rows), vocab_size))


def base_bags(texts: list[str], tokenizer: PreTrainedTokenizerBase, teacher_table_TH: Tensor) -> Tensor:
    """Y: the mean of the teacher's word embeddings over each text, (N, H)."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    unique = list(rows)
    bags_UH = torch.zeros(len(unique), teacher_table_TH.shape[1])
    for start in range(0, len(unique), TOKENIZE_CHUNK):
        chunk = unique[start : start + TOKENIZE_CHUNK]
        encoded = tokenizer(chunk, add_special_tokens=False, truncation=True, max_length=MAX_TOKENS)["input_ids"]
        for offset, ids in enumerate(encoded):
            if ids:
                bags_UH[start + offset] = teacher_table_TH[ids].mean(dim=0)
    return bags_UH[[rows[text] for text in texts]]


def prior_embeddings(
    vocabulary: dict[str, int], teacher_tokenizer: PreTrainedTokenizerBase, teacher_table_TH: Tensor
) -> Tensor:
    """E_0, the regression's start and prior: (V, H).

    A piece in the teacher's vocabulary gets the teacher's embedding; one that the teacher splits, the mean of its
    parts; one with an unknown part, the mean of the teacher's table. Special tokens are copied.
    """
    known = teacher_tokenizer.get_vocab()
    mean_H = teacher_table_TH.mean(dim=0)
    prior_VH = mean_H.repeat(len(vocabulary), 1)
    unknown = teacher_tokenizer.unk_token_id
    specials = {
        PAD: teacher_tokenizer.pad_token_id,
        UNK: unknown,
        CLS: teacher_tokenizer.cls_token_id,
        SEP: teacher_tokenizer.sep_token_id,
        MASK: teacher_tokenizer.mask_token_id,
    }
    for piece, index in vocabulary.items():
        if piece in specials:
            parts = [] if specials[piece] is None else [specials[piece]]
        else:
            parts = _teacher_parts(piece, teacher_tokenizer, known)
        if parts and (piece == UNK or unknown not in parts):
            prior_VH[index] = teacher_table_TH[parts].mean(dim=0)
    return prior_VH


def _teacher_parts(piece: str, teacher_tokenizer: PreTrainedTokenizerBase, known: dict[str, int]) -> list[int]:
    """The teacher's token id of a piece, or those of its parts."""
    word = piece.removeprefix(WORD_START)
    if not word:
        return []
    if word != piece:
        written, text = [piece], " " + word  # Unigram and our BPE; byte-level BPE has the space in the piece
    elif _is_han(word[0]):  # in BERT each such character is a word
        written, text = [word, "##" + word], word
    elif BYTE_LEVEL in known:  # its one-letter pieces are bytes
        written, text = [], word
    else:
        written, text = ["##" + word, word], word  # WordPiece; BPE and Unigram
    for name in written:
        if known.get(name, teacher_tokenizer.unk_token_id) != teacher_tokenizer.unk_token_id:
            return [known[name]]
    return list(teacher_tokenizer.encode(text, add_special_tokens=False))


def _is_han(character: str) -> bool:
    """Whether BERT's tokenizer makes the character a word."""
    return "\u4e00" <= character <= "\u9fff" or "\u3400" <= character <= "\u4dbf"


def solve_ridge(bags: csr_matrix, target_NH: Tensor, prior_VH: Tensor, *, ridge: float, iterations: int) -> Tensor:
    """E (V, H) that minimises the module's objective.

    Args:
        bags: A, (N, V).
        ridge: r; the prior weighs as much as r sentences with the token.
        iterations: of conjugate gradients on the normal equations, starting at E_0.
    """
    bags_NV, transposed_VN = _sparse_tensor(bags), _sparse_tensor(bags.T.tocsr())
    squares_V = torch.zeros(bags_NV.shape[1]).index_add_(0, bags_NV.col_indices(), bags_NV.values().square())
    penalty = float(ridge * bags_NV.values().square().mean())  # makes `ridge` a count of sentences of any length
    inverse_diagonal_V1 = 1.0 / (squares_V + penalty).unsqueeze(1)

    def normal_matrix(x_VH: Tensor) -> Tensor:
        return transposed_VN @ (bags_NV @ x_VH) + penalty * x_VH

    embeddings_VH = prior_VH.clone()
    residual_VH = transposed_VN @ (target_NH - bags_NV @ prior_VH)  # the penalty's gradient is 0 at the prior
    preconditioned_VH = inverse_diagonal_V1 * residual_VH
    direction_VH = preconditioned_VH.clone()
    energy_H = (residual_VH * preconditioned_VH).sum(dim=0)
    for _ in tqdm(range(iterations), desc="lexical", unit="iteration"):
        image_VH = normal_matrix(direction_VH)
        step_H = energy_H / (direction_VH * image_VH).sum(dim=0).clamp_min(1e-20)
        embeddings_VH += step_H * direction_VH
        residual_VH -= step_H * image_VH
        preconditioned_VH = inverse_diagonal_V1 * residual_VH
        previous_H, energy_H = energy_H, (residual_VH * preconditioned_VH).sum(dim=0)
        direction_VH = preconditioned_VH + energy_H / previous_H.clamp_min(1e-20) * direction_VH
    return embeddings_VH


def _sparse_tensor(matrix: csr_matrix) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")  # torch's beta notice
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data),
            matrix.shape,
            check_invariants=True,
        )
