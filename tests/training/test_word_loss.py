"""The word loss of stage 4."""

import dataclasses

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding
from torch.nn import functional as F

from tests.training.bases import wordpiece
from tests.training.tiny import tiny_corpus, tiny_sentence_encoder
from tests.training.tiny_words import tiny_teacher, tiny_word_teacher
from training.errors import ConfigError
from training.losses import word_alignment
from training.model import mean_pool
from training.stages.config import ContrastiveConfig
from training.stages.contrastive import contrastive_objective
from training.stages.pairs import PairEncoder, TeacherLabels, drawn_rows
from training.stages.words import check_word_teacher, token_limit

BATCH = np.array([3, 0, 7, 11, 12, 30, 2])


@pytest.fixture(scope="module")
def parts():
    corpus, tokens = tiny_corpus(40)
    pairs = PairEncoder(corpus, tokens, max_length=16, device=torch.device("cpu"))
    return tiny_sentence_encoder(), pairs, tiny_word_teacher(corpus, tokens)


def by_hand(student, pairs, words, batch) -> torch.Tensor:
    """The same loss, a pair and a link at a time."""
    total = torch.zeros(())
    for pair in batch.tolist():
        links = words.links.links[words.links.starts[pair] :][: words.links.counts[pair]]
        ids, mask = pairs.tokens.batch(pairs.corpus.other[[pair]], max_length=words.max_length)
        hidden = student.encoder(ids, mask).last_hidden_state[0]
        features = words.teacher.tokenizer(pairs.corpus.texts[int(pairs.corpus.english[pair])], return_tensors="pt")
        target = words.teacher[0].auto_model(**features).last_hidden_state[0]
        kept = [link for link in links.tolist() if link[1] < words.max_length]
        for first, stop, english, end in kept:
            word, counterpart = hidden[first:stop].mean(dim=0), target[english:end].mean(dim=0)
            word = word if student.head is None else student.head(word)
            distance = (F.normalize(word, dim=0) - F.normalize(counterpart, dim=0)).square().sum()
            total = total + words.weight * distance / len(kept) / len(batch)
    return total


def test_a_word_is_drawn_to_what_the_teacher_gives_its_counterpart(parts) -> None:
    student, pairs, words = parts
    counts = words.links.counts[BATCH]
    assert counts.min() == 0
    assert counts.max() > 1
    _, _, tokens = pairs.encode_tokens(student, BATCH, sources_S=BATCH[:2])
    torch.testing.assert_close(words.loss(student, BATCH, tokens), by_hand(student, pairs, words, BATCH))


def test_words_behind_the_cut_have_no_loss(parts) -> None:
    student, pairs, words = parts
    pairs, words = (dataclasses.replace(part, max_length=5) for part in (pairs, words))
    _, _, tokens = pairs.encode_tokens(student, BATCH)
    links, _ = words.links.of(BATCH)
    assert (links[:, 1] >= 5).any()
    assert (pairs.tokens.lengths_of(pairs.corpus.other[BATCH]) > 5).any()
    torch.testing.assert_close(words.loss(student, BATCH, tokens), by_hand(student, pairs, words, BATCH))


def test_the_student_alone_learns(parts) -> None:
    student, pairs, words = parts
    _, _, tokens = pairs.encode_tokens(student, BATCH)
    words.loss(student, BATCH, tokens).backward()
    assert student.encoder.get_input_embeddings().weight.grad.abs().sum() > 0
    words.teacher.requires_grad_(True)
    assert not words._encode(pairs.corpus.english[BATCH]).flat().requires_grad
    words.teacher.requires_grad_(False)
    student.zero_grad()


def test_pairs_without_links_count_as_nothing(parts) -> None:
    student, pairs, words = parts
    without = np.flatnonzero(words.links.counts == 0)[:4]
    _, _, tokens = pairs.encode_tokens(student, without)
    assert words.loss(student, without, tokens).item() == 0


def test_the_head_takes_words_to_the_teachers_width(parts) -> None:
    _, pairs, words = parts
    narrow = tiny_sentence_encoder(hidden_size=8)
    narrow.head = torch.nn.Linear(8, 16)
    _, _, tokens = pairs.encode_tokens(narrow, BATCH)
    torch.testing.assert_close(words.loss(narrow, BATCH, tokens), by_hand(narrow, pairs, words, BATCH))


def test_stage_4_adds_it_by_its_weight(parts) -> None:
    student, pairs, words = parts
    labels = TeacherLabels(np.eye(40, 16, dtype=np.float32), np.arange(40))

    def losses(weight: float | None) -> dict[str, torch.Tensor]:
        teacher = dataclasses.replace(words, weight=weight) if weight else None
        config = ContrastiveConfig(pairs=1, source_share=0.5)
        return contrastive_objective(student, labels, pairs, config, teacher).losses(BATCH)

    without, once, twice = losses(None), losses(1.0), losses(2.0)
    assert without.keys() == {"source", "target", "contrastive"}
    assert all(once[name].item() == without[name].item() for name in without)
    assert twice["words"].item() == pytest.approx(2 * once["words"].item())
    assert once["words"].item() > 0


def test_a_share_of_the_pairs_stands_for_all(parts) -> None:
    student, pairs, words = parts
    labels = TeacherLabels(np.eye(40, 16, dtype=np.float32), np.arange(40))
    whole, part = (
        contrastive_objective(student, labels, pairs, ContrastiveConfig(pairs=1, word_share=share), words)
        for share in (None, 0.25)
    )
    generator = np.random.default_rng(1)
    batches = [generator.permutation(40)[:8] for _ in range(200)]
    with torch.no_grad():
        torch.testing.assert_close(
            part.losses(BATCH)["words"], by_hand(student, pairs, words, BATCH[drawn_rows(BATCH, 0.25)])
        )
        means = [np.mean([one.losses(batch)["words"].item() for batch in batches]) for one in (whole, part)]
    assert means[1] == pytest.approx(means[0], rel=0.1)


def test_the_length_of_a_words_embedding_does_not_matter() -> None:
    one, other, weight = torch.randn(5, 16), torch.randn(5, 16), torch.rand(5)
    expected = (2 - 2 * F.cosine_similarity(one, other)) @ weight
    torch.testing.assert_close(word_alignment(one * 7, other * 0.1, weight), expected)


def test_token_embeddings_are_found_by_text(parts) -> None:
    student, pairs, _ = parts
    _, _, tokens = pairs.encode_tokens(student, BATCH)
    flat = tokens.flat()
    for text in pairs.corpus.other[BATCH]:
        ids, mask = pairs.tokens.batch(np.array([text]), max_length=16)
        first = tokens.first_rows(np.array([text]))[0]
        torch.testing.assert_close(
            flat[first : first + ids.shape[1]].mean(dim=0), mean_pool(student.token_embeddings(ids, mask), mask)[0]
        )
    assert tokens.first_rows(pairs.corpus.other[[39, 3]]).tolist()[0] == -1


def test_a_teacher_of_another_pooling_is_refused() -> None:
    teacher = tiny_teacher(["a text", "another"])
    check_word_teacher(teacher)
    check_word_teacher(SentenceTransformer(modules=[*teacher, Normalize()], device="cpu"))
    for rest in ([Pooling(16, pooling_mode="cls")], [Pooling(16, pooling_mode="mean"), Dense(16, 16)]):
        with pytest.raises(ConfigError, match="mean of its token embeddings"):
            check_word_teacher(SentenceTransformer(modules=[teacher[0], *rest], device="cpu"))


def test_a_prompt_before_every_text_is_refused() -> None:
    teacher = tiny_teacher(["a text", "another"])
    teacher.prompts, teacher.default_prompt_name = {"query": "query: "}, "query"
    with pytest.raises(ConfigError, match="without a default prompt, not 'query'"):
        check_word_teacher(teacher)


def test_a_teacher_that_cuts_its_embeddings_is_refused() -> None:
    teacher = tiny_teacher(["a text", "another"])
    teacher.truncate_dim = 8
    with pytest.raises(ConfigError, match="needs a teacher with all of its dims, not the first 8"):
        check_word_teacher(teacher)


def test_a_teacher_without_a_transformer_is_refused() -> None:
    with pytest.raises(ConfigError, match="mean of its token embeddings"):
        check_word_teacher(
            SentenceTransformer(modules=[StaticEmbedding(wordpiece(["a"]), embedding_dim=4)], device="cpu")
        )


def test_a_teacher_without_a_limit_cuts_what_links_cannot_number() -> None:
    teacher = tiny_teacher(["a text"])
    teacher.max_seq_length = None
    assert token_limit(teacher) == 65_535
    teacher.max_seq_length = 12
    assert token_limit(teacher) == 12
