"""The steps of stage 5: questions, what the teacher says of them, training, and how far to go.

Shapes: K texts to keep, D dims.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer  # type: ignore[import-untyped]

from training.adaptation.trainer import move_weights
from training.errors import ConfigError
from training.evaluation.encoders import TextEncoder
from training.evaluation.sts import has_dev
from training.models.encoder import lengthen_positions, train_with_rounded_words, word_table
from training.models.sentence_encoder import SentenceEncoder
from training.models.start import OFFSET_FAMILIES
from training.models.teacher import load_teacher, teacher_identity
from training.optimisation.batches import BatchStream
from training.optimisation.loop import train
from training.optimisation.processes import on_main_process
from training.passages.dev import DevSets
from training.passages.questions import Questions, measured_text, read_questions
from training.passages.teaching import Kept, load_taught, passages_objective, plan_questions, teach
from training.pipeline.run import Run
from training.pipeline.runner import Step
from training.system.files import write_atomically, write_json_atomically
from training.vocabulary.tokens import TokenStore, build_token_store

logger = logging.getLogger(__name__)
KEPT_FILE = "kept.npz"
TIE = 0.1  # points on dev: of strengths as near to the best as this, the least is kept


def question_steps(run: Run) -> list[Step]:
    """What stage 5 reads beside the corpus and the model before."""
    config = run.config.passages
    sets = {**config.model_dump(include={"sets", "measured"}), "languages": run.config.languages}
    labels = {**config.model_dump(include={"hard", "max_length", "bf16"}), "teacher": teacher_identity(config.teacher)}
    length = {"max_length": config.max_length}
    return [
        Step("questions", partial(make_questions, run), {**sets, "seed": run.config.seed}, after=("data",)),
        Step("question-tokens", partial(tokenize, run), length, after=("questions", "tokenizer")),
        Step("taught", partial(ask_teacher, run), labels, after=("questions",)),
    ]


def make_questions(run: Run, folder: Path) -> None:
    """Read the questions, and leave out what is measured."""
    config, languages = run.config.passages, ["en", *run.config.languages]
    measured = measured_text(run.data, config.measured)
    read_questions(run.data, config.sets, languages, measured, seed=run.config.seed).save(folder)


def tokenize(run: Run, folder: Path) -> None:
    """Store the token ids of questions and passages."""
    tokenizer = Tokenizer.from_file(str(run.out / "tokenizer" / "tokenizer.json"))
    texts, pad_id = Questions.load(run.out / "questions").texts, int(run.tokenizer.pad_token_id)
    build_token_store(texts, tokenizer, folder, max_length=run.config.passages.max_length, pad_id=pad_id)


def ask_teacher(run: Run, folder: Path) -> None:
    """Embed questions and passages with the retrieval teacher, and look up hard passages."""
    config = run.config.passages
    teacher = load_teacher(config.teacher, device=run.device, trust_remote_code=run.config.trust_remote_code)
    teach(teacher, Questions.load(run.out / "questions"), folder, config)


def teach_passages(run: Run, folder: Path) -> None:
    """Train; `strengths.json` holds what dev says of the weights on the way from the model before."""
    config, questions = run.config.passages, Questions.load(run.out / "questions")
    model = lengthened(run, run.load(run.before("passages")))
    encode = TextEncoder(model, run.tokenizer, max_length=config.max_length, bf16=config.bf16)
    dev = DevSets.read(questions, run.scored / "eval")
    is_there = has_dev(run.scored, run.config.scored_languages, run.config.dev_folder)
    similarity = run.validation(model) if is_there else None
    before = deepcopy(model.state_dict())
    on_main_process(lambda: choose_kept(run, encode, folder / KEPT_FILE))
    if config.embedding_learning_rate == 0:
        word_table(model.encoder).requires_grad_(False)
    if config.round_words:
        train_with_rounded_words(model.encoder)
    tokens = TokenStore.load(run.out / "question-tokens")
    kept = Kept.load(folder / KEPT_FILE)
    objective = passages_objective(
        model, questions, load_taught(run.out / "taught"), kept, (tokens, run.tokens), config, run.device
    )
    plan = plan_questions(
        questions.rows(held_out=False),
        config.batch_size,
        config.pairs or round((config.epochs or 0) * int((~questions.is_held_out_Q).sum())),
        exponent=config.language_exponent or 0.0,
        seed=run.config.seed if config.seed is None else config.seed,
    )
    batches = BatchStream(
        plan,
        lambda rows: tokens.lengths_of(questions.passage_Q[rows]),
        config.batch_size,
        seed=run.config.seed,
        epoch_pairs=int((~questions.is_held_out_Q).sum()),
        bucketed=False,
    )
    train(
        objective,
        batches,
        config,
        folder,
        name="passages",
        checkpoint_minutes=run.config.checkpoint_minutes,
        device=run.device,
        validate=(lambda: dev.found(encode)) if config.validate_pairs and dev.passages else None,
    )
    after, judged = deepcopy(model.state_dict()), {}

    def keep_best() -> None:  # part of the way from the weights before: Wortsman et al. 2022, WiSE-FT
        for strength in [0.0, *config.strengths]:
            move_weights(model, before, after, strength)
            judged[strength] = dev.judged(encode, similarity)
            logger.info("passages, %g of the way: %s", strength, judged[strength])
        best = least_of_best({strength: scores["mean"] for strength, scores in judged.items()})
        move_weights(model, before, after, best)
        write_json_atomically(folder / "strengths.json", {"kept": best, "judged": judged})
        run.save(model, folder)

    on_main_process(keep_best)


def least_of_best(score_of: Mapping[float, float]) -> float:
    """Return the smallest strength whose score is within `TIE` of the best: it loses least elsewhere."""
    best = max(score_of.values())
    return min(strength for strength, score in score_of.items() if score >= best - TIE)


def lengthened(run: Run, model: SentenceEncoder) -> SentenceEncoder:
    """Give the model positions for passages: the base's, moved as training moved those of shorter texts.

    Raises: ConfigError: positions of the base's family count from its padding.
    """
    body = run.load_base()[0].auto_model
    if body.config.model_type in OFFSET_FAMILIES:
        raise ConfigError(
            f"stage passages needs a base of the BERT family; {run.config.base} is {body.config.model_type}"
        )
    own, table_LH = model.encoder.body.embeddings.position_embeddings.weight, body.embeddings.position_embeddings.weight
    lengths = [run.config.stage(name).max_length for name in run.config.stages if name != "passages"]
    trained = len(own) if run.config.continue_from is not None else max(lengths, default=len(own))
    longer = lengthen_positions(model.encoder, table_LH.detach(), trained, run.config.passages.max_length)
    return SentenceEncoder(longer, model.head, normalized=model.normalized).to(run.device).eval()


def choose_kept(run: Run, encode: TextEncoder, path: Path) -> None:
    """Write sentences of the corpus, as many of each language, and where they are before the stage."""
    if path.exists():
        return
    corpus, generator = run.corpus, np.random.default_rng(run.config.seed)
    sides = [corpus.english, *(corpus.other[corpus.language_code == code] for code in range(len(corpus.languages)))]
    share = -(-run.config.passages.kept_texts // len(sides))
    texts_K = np.unique(np.concatenate([generator.permutation(np.unique(side))[:share] for side in sides]))
    logger.info("encoding %d sentences to keep", len(texts_K))
    vector_KD = encode([corpus.texts[int(index)] for index in texts_K])

    def save(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, texts_K=texts_K.astype(np.int32), vector_KD=vector_KD)

    write_atomically(path, save)
