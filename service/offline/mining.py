"""Compares the lines of files: translations between two files, and lines of one file that say the same.

Both look at margins: a cosine over the mean cosine with other lines (Artetxe & Schwenk 2019, arXiv:1811.01136,
"Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings"). A cosine alone joins sentences about one
subject before translations. Lines with equal vectors count once: copies would take the places of other neighbours.

A group is a line and the later lines near it; a line near several groups joins the earliest. Groups are not chained
from line to line: that would join unlike sentences. Their margin compares with the farther half of the nearest lines:
the nearer half may say the same in other languages or words.

Vectors are stored as float16 and multiplied as float32: a cosine changes by about 1e-4. Before a comparison with a
threshold they are renormalised, so that equal vectors have a cosine of 1.

N lines or left lines, M right lines, U and V of different vectors, P pairs, D dims, K neighbours, Q and C rows of one
block of scores
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.documents.document import unit_rows
from service.documents.readers.jsonl import Lines
from service.errors import InferenceFailed, InvalidInput
from service.offline.embedding import Engine
from service.offline.output import progress
from service.process.cpus import usable_cpus
from service.settings import Settings

Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Firsts = Rows  # (N,): the first row of each row's group
Mined = tuple[float, int, int]  # margin, left row, right row
Advance = Callable[[int], object]  # called with the number of further rows done

MARGIN_NEIGHBOURS = 4  # k of the paper, and of LASER's xsim and BUCC scripts
GROUP_NEIGHBOURS = 16  # the nearer half may be of a line's group; in a file of fewer lines the cosine alone counts
# What readers take for the end of a line or cell.
SEPARATORS = re.compile(r"\r\n|[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
BATCH_TEXTS = 256
QUERY_ROWS = 1024
CANDIDATE_ROWS = 16_384  # in float32: 25 MB at 384 dims
PAIR_ROWS = 16_384  # against QUERY_ROWS: 64 MB of scores
ROUNDING = 1e-6  # error of a cosine in float32


@dataclass(frozen=True)
class Neighbours:
    """The nearest candidates of each row, best first: cosines and rows, both (N, K)."""

    cosines_NK: Floats
    rows_NK: Rows

    def without(self, own_N: Rows) -> "Neighbours":
        """Return them without one candidate of each row, or without the last where that is not among them."""
        is_other_NK = self.rows_NK != own_N[:, None]
        is_other_NK[is_other_NK.all(axis=1), -1] = False
        shape = (len(own_N), self.rows_NK.shape[1] - 1)
        return Neighbours(self.cosines_NK[is_other_NK].reshape(shape), self.rows_NK[is_other_NK].reshape(shape))


@dataclass(frozen=True)
class Margins:
    """The best partner of every line and its margin, in both directions."""

    right_of_left_N: Rows
    margin_of_left_N: Floats
    left_of_right_M: Rows
    margin_of_right_M: Floats


def mined_as_tsv(left: Lines, right: Lines, mined: Sequence[Mined], *, threshold: float) -> Iterator[bytes]:
    """Yield margin<TAB>left<TAB>right, best first, down to the threshold. Tabs and line ends in texts become spaces."""
    for margin, left_row, right_row in mined:
        if margin < threshold:
            return
        texts = (SEPARATORS.sub(" ", lines.text(row)) for lines, row in ((left, left_row), (right, right_row)))
        yield "\t".join([f"{margin:.4f}", *texts]).encode() + b"\n"


def mine_rows(left: Lines, right: Lines, engine: Engine, *, k: int, dim: int, settings: Settings) -> list[Mined]:
    """Return (margin, left row, right row), best first.

    Lines of equal vectors count once for the margin, and pair with as many lines of the partner's vector.

    Memory: 2 x (N + M) x dim bytes of vectors, as much again of a file where its lines repeat, and some 200 + 12 x k
    bytes a line.

    Raises: InvalidInput: a file has no line with a text.
    """
    for lines in (left, right):
        if not len(lines):
            raise InvalidInput(f"{lines.path} has no line with a text")
    limit, threads = settings.max_text_chars, settings.workers or usable_cpus()
    left_UD, _, left_place_N = _without_copies(embed_lines(left, engine, dim=dim, max_text_chars=limit))
    right_VD, _, right_place_M = _without_copies(embed_lines(right, engine, dim=dim, max_text_chars=limit))
    with progress("neighbours", total=len(left_UD) + len(right_VD), unit="lines") as bar:
        left_near = nearest(left_UD, right_VD, k, threads=threads, advance=bar.update)
        right_near = nearest(right_VD, left_UD, k, threads=threads, advance=bar.update)
    return mine(ratio_margins(left_near, right_near), left_place_N, right_place_M)


def find_groups(lines: Lines, engine: Engine, *, cosine: float, margin: float, dim: int, settings: Settings) -> Firsts:
    """Group lines with at least that cosine and margin; margin 0: by cosine alone.

    Memory: 2 x N x dim bytes of vectors, and as much again where lines repeat.
    """
    vectors_ND = embed_lines(lines, engine, dim=dim, max_text_chars=settings.max_text_chars)
    threads = settings.workers or usable_cpus()
    with progress("pairs", total=len(lines), unit="lines") as bar:
        if not margin:
            return leaders(vectors_ND, cosine, advance=bar.update)
        return groups_by_margin(vectors_ND, cosine=cosine, margin=margin, threads=threads, advance=bar.update)


def groups_by_margin(vectors_ND: Halves, *, cosine: float, margin: float, threads: int, advance: Advance) -> Firsts:
    """Group rows of equal vectors, then those with at least that cosine and margin; few rows by cosine alone."""
    different_UD, row_U, place_N = _without_copies(vectors_ND)
    if len(row_U) <= GROUP_NEIGHBOURS:
        return leaders(vectors_ND, cosine, advance=advance)
    advance(len(vectors_ND) - len(row_U))
    near = nearest_others(different_UD, GROUP_NEIGHBOURS, threads=threads, advance=advance)
    leader_U = np.arange(len(row_U))
    for later, earlier in near_pairs(near, margin=margin, cosine=cosine - ROUNDING).tolist():
        if leader_U[later] == later and leader_U[earlier] == earlier:
            leader_U[later] = earlier
    grouped: Firsts = row_U[leader_U][place_N]
    return grouped


def groups_as_json(lines: Lines, first_N: Firsts) -> Iterator[bytes]:
    """Yield {"lines": [..], "texts": [..]} for each group of two or more, by first line. Lines count from 1."""
    order = np.argsort(first_N, kind="stable")
    starts = np.flatnonzero(np.diff(first_N[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        if len(rows) > 1:
            members: list[int] = rows.tolist()
            group = {"lines": [lines.number(row) for row in members], "texts": [lines.text(row) for row in members]}
            yield orjson.dumps(group, option=orjson.OPT_APPEND_NEWLINE)


def without_repeats(lines: Lines, first_N: Firsts) -> Iterator[bytes]:
    """Yield the first line of each group and every line without one, byte for byte as in the file."""
    for row in np.flatnonzero(first_N == np.arange(len(first_N))).tolist():
        line = lines.raw(row)
        yield line if line.endswith(b"\n") else line + b"\n"


def embed_lines(lines: Lines, engine: Engine, *, dim: int, max_text_chars: int) -> Halves:
    """Return (N, D) float16, a row for each line with a text. Memory: 2 x N x D bytes.

    Raises: InvalidInput: a line is not UTF-8, or longer than `max_text_chars`.
            InferenceFailed: the model fails on a line.
    """

    def text(row: int) -> str:
        text = lines.text(row)
        if len(text) > max_text_chars:
            raise InvalidInput(
                f"{lines.path} line {lines.number(row)} has {len(text)} characters; "
                f"the limit is {max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
            )
        return text

    starts = range(0, len(lines), BATCH_TEXTS)
    batches = ([text(row) for row in range(start, min(start + BATCH_TEXTS, len(lines)))] for start in starts)
    vectors_ND = np.empty((len(lines), dim), np.float16)
    with progress(lines.path.name, total=len(lines), unit="lines") as bar:
        for start, embedded in zip(starts, engine(batches), strict=True):
            for position, error in embedded.failed.items():
                raise InferenceFailed(f"{lines.path} line {lines.number(start + position)}: {error}")
            stop = start + len(embedded.vectors_ND)
            vectors_ND[start:stop] = embedded.vectors_ND
            bar.update(stop - start)
    return vectors_ND


def different(vectors_ND: npt.NDArray[Any]) -> tuple[Rows, Rows]:
    """Return the first row of each different vector, (U,) in order, and each row's place among them, (N,).

    Memory: some 150 bytes a row.
    """
    first: dict[bytes, int] = {}
    digests = (blake2b(vector_D.tobytes(), digest_size=16).digest() for vector_D in vectors_ND)
    first_N = np.fromiter(
        (first.setdefault(digest, row) for row, digest in enumerate(digests)), np.int64, len(vectors_ND)
    )
    row_U, place_N = np.unique(first_N, return_inverse=True)
    return row_U, place_N


def _without_copies(vectors_ND: Halves) -> tuple[Halves, Rows, Rows]:
    """Return the different vectors and what `different` returns; where all differ, the vectors are not copied."""
    row_U, place_N = different(vectors_ND)
    return (vectors_ND if len(row_U) == len(vectors_ND) else vectors_ND[row_U]), row_U, place_N


def ratio_margins(left: Neighbours, right: Neighbours) -> Margins:
    """Divide cos(x, y) by the mean cosine of x and y with their k nearest: Eq. (2) of the paper, "ratio".

    Partners come from the k nearest, as in LASER. Where the mean is not positive, nothing is similar: the margin is 0.
    """
    mean_N, mean_M = left.cosines_NK.mean(axis=1), right.cosines_NK.mean(axis=1)
    margin_NK, margin_MK = _ratio(left, mean_N, mean_M), _ratio(right, mean_M, mean_N)
    best_N, best_M = margin_NK.argmax(axis=1), margin_MK.argmax(axis=1)
    row_N, row_M = np.arange(len(best_N)), np.arange(len(best_M))
    return Margins(
        right_of_left_N=left.rows_NK[row_N, best_N],
        margin_of_left_N=margin_NK[row_N, best_N],
        left_of_right_M=right.rows_NK[row_M, best_M],
        margin_of_right_M=margin_MK[row_M, best_M],
    )


def near_pairs(near: Neighbours, *, margin: float, cosine: float) -> Rows:
    """Return the pairs of one text's rows with at least that margin and cosine, (P, 2), the later row first, in order.

    The margin of a pair is its cosine over the mean cosine of both rows with the farther half of their neighbours.

    near: of each row the nearest others of the same text.
    """
    mean_N = near.cosines_NK[:, near.cosines_NK.shape[1] // 2 :].mean(axis=1)
    margin_NK = _ratio(near, mean_N, mean_N)
    row_P, place_P = np.nonzero((margin_NK >= margin) & (near.cosines_NK >= cosine))
    pair_P2 = np.stack([row_P, near.rows_NK[row_P, place_P]], axis=1)
    return np.unique(np.sort(pair_P2, axis=1)[:, ::-1], axis=0)


def mine(margins: Margins, left_place_N: Rows, right_place_M: Rows) -> list[Mined]:
    """Select pairs greedily from both directions: (margin, left row, right row), best first, each row once.

    margins: of the different sentences.  left_place_N, right_place_M: each row's place among them, as `different` gives
    it. The copies of a sentence take those of its partner in order; copies that are left over may take the next best.
    """
    left = np.concatenate([np.arange(len(margins.right_of_left_N)), margins.left_of_right_M])
    right = np.concatenate([margins.right_of_left_N, np.arange(len(margins.left_of_right_M))])
    margin = np.concatenate([margins.margin_of_left_N, margins.margin_of_right_M])
    order = np.lexsort((right, left, -margin))
    left_rows, right_rows = _rows_by_place(left_place_N), _rows_by_place(right_place_M)
    mined = []
    for score, left_place, right_place in zip(
        *(column[order].tolist() for column in (margin, left, right)), strict=True
    ):
        unused_left, unused_right = left_rows[left_place], right_rows[right_place]
        while unused_left and unused_right:
            mined.append((score, unused_left.pop(), unused_right.pop()))
    return mined


def _rows_by_place(place_N: Rows) -> list[list[int]]:
    """Return the rows of each different sentence, the first one last."""
    rows: list[list[int]] = [[] for _ in range(int(place_N.max(initial=-1)) + 1)]
    for row in range(len(place_N) - 1, -1, -1):
        rows[place_N[row]].append(row)
    return rows


def _ratio(near: Neighbours, mean_N: Floats, mean_M: Floats) -> Floats:
    """Return each cosine over the mean of both its rows' means, (N, K); 0 where that is not positive."""
    mean_NK = (mean_N[:, None] + mean_M[near.rows_NK]) / 2
    margin_NK: Floats = np.divide(near.cosines_NK, mean_NK, out=np.zeros_like(near.cosines_NK), where=mean_NK > 0)
    return margin_NK


def nearest(query_ND: Halves, candidate_MD: Halves, k: int, *, threads: int, advance: Advance) -> Neighbours:
    """Return the k candidates with the largest inner product for each query, best first; all if there are fewer."""
    import faiss  # here: only these commands and documents need it

    faiss.omp_set_num_threads(threads)
    k = min(k, len(candidate_MD))
    cosines_NK = np.empty((len(query_ND), k), np.float32)
    rows_NK = np.empty((len(query_ND), k), np.int64)
    for start in range(0, len(query_ND), QUERY_ROWS):
        query_QD = query_ND[start : start + QUERY_ROWS].astype(np.float32)
        best_cosines, best_rows = [], []
        for first in range(0, len(candidate_MD), CANDIDATE_ROWS):
            candidate_CD = candidate_MD[first : first + CANDIDATE_ROWS].astype(np.float32)
            cosines, rows = faiss.knn(
                query_QD, candidate_CD, min(k, len(candidate_CD)), metric=faiss.METRIC_INNER_PRODUCT
            )
            best_cosines.append(cosines)
            best_rows.append(rows + first)
        all_cosines, all_rows = np.hstack(best_cosines), np.hstack(best_rows)
        order_QK = np.argsort(-all_cosines, axis=1, kind="stable")[:, :k]
        stop = start + len(query_QD)
        cosines_NK[start:stop] = np.take_along_axis(all_cosines, order_QK, axis=1)
        rows_NK[start:stop] = np.take_along_axis(all_rows, order_QK, axis=1)
        advance(len(query_QD))
    return Neighbours(cosines_NK, rows_NK)


def nearest_others(vectors_ND: Halves, k: int, *, threads: int, advance: Advance) -> Neighbours:
    """Return the k nearest other rows of each row, as `nearest` does."""
    near = nearest(vectors_ND, vectors_ND, k + 1, threads=threads, advance=advance)
    return near.without(np.arange(len(vectors_ND)))  # a row is not among them if as many equal ones came before it


def leaders(vectors_ND: Halves, threshold: float, *, advance: Advance) -> Rows:
    """Return each row's leader, (N,): the earliest leader with at least the threshold's cosine, or the row itself."""
    leader_N = np.arange(len(vectors_ND))
    least = threshold - ROUNDING
    for start in range(0, len(vectors_ND), QUERY_ROWS):
        query_QD = unit_rows(vectors_ND[start : start + QUERY_ROWS].astype(np.float32))
        stop = start + len(query_QD)
        for first in range(0, start, PAIR_ROWS):  # earlier blocks: their leaders are final
            last = min(first + PAIR_ROWS, start)
            leading = first + np.flatnonzero(leader_N[first:last] == np.arange(first, last))
            if not len(leading):
                continue
            is_near = query_QD @ unit_rows(vectors_ND[leading].astype(np.float32)).T >= least
            is_led = is_near.any(axis=1) & (leader_N[start:stop] == np.arange(start, stop))
            leader_N[start:stop][is_led] = leading[is_near[is_led].argmax(axis=1)]
        _lead_within(leader_N[start:stop], query_QD @ query_QD.T >= least, start)
        advance(len(query_QD))
    return leader_N


def _lead_within(leader_Q: Rows, is_near_QQ: npt.NDArray[np.bool_], start: int) -> None:
    """Find leaders, row by row, for the rows of a block that have none in earlier blocks."""
    leads_Q = np.zeros(len(leader_Q), np.bool_)
    for row in np.flatnonzero(leader_Q == start + np.arange(len(leader_Q))).tolist():
        near = is_near_QQ[row, :row] & leads_Q[:row]
        if near.any():
            leader_Q[row] = start + near.argmax()
        else:
            leads_Q[row] = True
