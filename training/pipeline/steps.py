"""The steps of a run in order, and the work of each: it reads earlier steps' results and fills its own folder.

A step's settings are fingerprinted: a finished step is used again only if they are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.config.run import STAGES, BottleneckConfig, ContrastiveConfig, RunConfig, Stage, StudentStageConfig
from training.corpora.mix import build_corpus
from training.corpora.readers import mono_texts
from training.evaluation.report import evaluate
from training.evaluation.vectors import each_text_once
from training.models.encoder import compile_layers, train_with_rounded_words
from training.models.first_dimensions import fit_rotation, rotate
from training.models.labels import LabelSpace, linear_fit
from training.models.lexical import base_bags, prior_embeddings, solve_ridge, text_bags
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder
from training.models.start import assistant_from_base, check_left_out, check_shrinkable, student_from_assistant
from training.models.teacher import teacher_identity
from training.optimisation.batches import BatchStream, FixedPlan, Plan, length_bucketed
from training.optimisation.loop import Objective, train
from training.optimisation.processes import is_main_process, on_main_process
from training.passages.stage import question_steps, teach_passages
from training.pipeline.run import CHECKPOINT, LABEL_SPACE, Run
from training.pipeline.runner import Step
from training.pipeline.summary import write_summary
from training.stages.objectives import (
    assistant_objective,
    bottleneck_objective,
    contrastive_objective,
    student_objective,
)
from training.stages.pairs import PairEncoder
from training.system.files import write_json_atomically
from training.vocabulary.pruning import count_pieces, prune_tokenizer
from training.vocabulary.tokenizer import balanced_sentences, drop_invisible, train_tokenizer, wrap_tokenizer
from training.vocabulary.tokens import build_token_store

KEPT_IDS = "kept_ids.npy"  # beside a pruned tokenizer: each piece's token id in the base
FITTED_PAIRS = 6_000
HEAD_RIDGE = 0.01
ROTATED_PAIRS = 900  # a language, that the rotation of embeddings is fitted on
ALIGNMENT_PAIRS = 4_096  # sample on which the error of stage 2 is measured before and after training


def steps_of(run: Run) -> list[Step]:
    """Corpus to final. A stage that is not trained has no step; a scored model has an extra one."""
    config = run.config
    base = teacher_identity(config.base or config.teacher)
    corpus = {**config.corpus.model_dump(exclude={"fetch"}), "languages": config.languages, "seed": config.seed}
    tokenizer = {**config.tokenizer.model_dump(), "base": None if config.tokenizer.kind == "new" else base}
    if config.continue_from is not None:
        tokenizer["checkpoint"] = teacher_identity(config.continue_from)
    labels = {**config.labels.model_dump(), "beside": [teacher_identity(name) for name in config.labels.beside]}
    begun = {
        "base": base,
        "teacher": teacher_identity(config.teacher),
        "labels": labels,
        "head": config.head,
        "bf16": config.bf16,
        "lexical": config.lexical.model_dump() if config.tokenizer.kind == "new" else None,
    }
    if config.has_label_space or config.head == "fitted":
        drawn = {"pairs", "epochs", "sources", "language_exponent", "seed"}
        begun["fitted_on"] = config.stage(fitting_stage(config)).model_dump(include=drawn)
    steps = [
        Step("corpus", partial(make_corpus, run), corpus, after=("data",)),
        Step("tokenizer", partial(make_tokenizer, run), tokenizer, after=("corpus",)),
        Step("tokens", partial(tokenize, run), {"max_length": config.student.max_length}, after=("tokenizer",)),
    ]
    works: dict[str, tuple[Callable[[Path], None], dict[str, Any]]] = {
        "start": (partial(start, run), begun),
        "shrunk": (partial(shrink, run), {**config.student.model_dump(), "head": config.head}),
        **{name: (partial(train_stage, run, name), config.stage(name).model_dump()) for name in config.stages},
    }
    if config.continue_from is not None:
        works["start"] = (partial(go_on, run), {"checkpoint": teacher_identity(config.continue_from)})
    if "passages" in config.stages:
        steps += question_steps(run)
        dev = [config.dev_folder, config.evaluation.dev_rows, config.scored_languages]  # they choose the strength
        works["passages"][1].update(base=base, dev=dev)
    scored: list[str] = []
    for name, before in zip(run.models, ["tokens", *run.models], strict=False):
        work, settings = works[name]
        after = (before, "question-tokens", "taught") if name == "passages" else (before,)
        steps.append(Step(name, work, settings, after, together=name in STAGES))
        if name == run.models[-1] or name in config.evaluation.steps:
            settings = config.evaluation.model_dump(exclude={"steps", "dev", "dev_rows"})
            steps.append(Step(f"{name}-scores", partial(score, run, name), settings, after=(name,)))
            scored.append(f"{name}-scores")
    ending = {"name": config.name, "first_dimensions": config.first_dimensions}
    steps.append(Step("final", partial(finish, run), ending, after=(run.models[-1], *scored)))
    return steps


def make_corpus(run: Run, folder: Path) -> None:
    """Clean, deduplicate and cap the corpus; remove evaluation sentences."""
    config = run.config
    build_corpus(config.corpus, config.languages, run.data, folder, seed=config.seed, scored=run.scored)


def make_tokenizer(run: Run, folder: Path) -> None:
    """Make the vocabulary: trained for these languages, taken from the base, or the base's pruned to the corpus."""
    config = run.config.tokenizer
    if run.config.continue_from is not None:
        AutoTokenizer.from_pretrained(run.config.continue_from).save_pretrained(folder)
        return
    if config.kind == "new":
        train_tokenizer(run.corpus, config, seed=run.config.seed).save(str(folder / "tokenizer.json"))
        tokenizer = wrap_tokenizer(folder / "tokenizer.json", max_length=run.config.student.max_length)
    else:
        tokenizer = run.load_base().tokenizer
    if config.kind == "pruned":
        base = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        sentences = balanced_sentences(run.corpus, config, seed=run.config.seed)
        drop_invisible(base)
        mono = mono_texts(run.data, config.mono, run.config.languages)
        counts_V = count_pieces(base, [*sentences, *mono])
        pruned, kept_ids = prune_tokenizer(base, counts_V, config.vocab_size, fill=config.fill)
        np.save(folder / KEPT_IDS, kept_ids)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=pruned, **tokenizer.special_tokens_map)
    tokenizer.save_pretrained(folder)


def tokenize(run: Run, folder: Path) -> None:
    """Store the token ids of every text."""
    tokenizer = Tokenizer.from_file(str(run.out / "tokenizer" / "tokenizer.json"))
    pad_id = int(run.tokenizer.pad_token_id)
    build_token_store(run.corpus.texts, tokenizer, folder, max_length=run.config.student.max_length, pad_id=pad_id)


def start(run: Run, folder: Path) -> None:
    """Build the assistant before training, from the base's body and head.

    A new vocabulary gets its word embeddings by regression.
    """
    base, (dim, normalized) = run.load_base(), run.label_shape
    check_shrinkable(base[0].auto_model.config, run.config)
    check_left_out(base, dim, run.config.stages)
    table_VH = base[0].auto_model.get_input_embeddings().weight.detach()
    embeddings_VH: Tensor | None = None
    if run.config.tokenizer.kind == "new":
        embeddings_VH = lexical_embeddings(run, base.tokenizer, table_VH)
    elif run.config.tokenizer.kind == "pruned":
        embeddings_VH = table_VH[torch.from_numpy(np.load(run.out / "tokenizer" / KEPT_IDS))]
    pad_id = int(run.tokenizer.pad_token_id)
    assistant = assistant_from_base(
        base, embeddings_VH, dim=dim, normalized=normalized, pad_id=pad_id, seed=run.config.seed
    ).to(run.device)
    if run.config.has_label_space:
        sample = run.corpus.english[sample_pairs(run)].astype(np.int64)
        vectors = run.sample_embeddings(sample)
        space = LabelSpace.fit(vectors, dim=dim, centred=run.config.labels.centred)
        if run.config.head == "base":
            space = space.turned_to(vectors, encoded(run, assistant, sample))
        space.save(folder / LABEL_SPACE)
    if run.config.head == "fitted":
        fit_head(run, assistant)
    run.save(assistant, folder)


def go_on(run: Run, folder: Path) -> None:
    """Take a checkpoint as it is."""
    run.save(load_sentence_encoder(Path(str(run.config.continue_from))), folder)


def sample_pairs(run: Run) -> NDArray[np.int64]:
    """The first pairs that are trained on the teacher's labels; labels and heads are fitted on them."""
    return run.stage_plan(fitting_stage(run.config)).round(0)[:FITTED_PAIRS]


def fitting_stage(config: RunConfig) -> Stage:
    """Return the stage whose pairs are drawn to fit labels and heads."""
    return "assistant" if "assistant" in config.stages else "contrastive"


def encoded(run: Run, model: SentenceEncoder, texts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Embed texts of the corpus, given by index: (N, D)."""
    # a sample of little text has every text several times
    encode = each_text_once(run.text_encoder(model))
    return encode([run.corpus.texts[int(index)] for index in texts])


def fit_head(run: Run, model: SentenceEncoder) -> None:
    """Fit the model's linear head to the labels by ridge regression on the pooled states of both sides.

    Differs from the paper, where the head is random if the widths differ, and absent otherwise.
    """
    pairs = sample_pairs(run)
    labels = run.teacher_labels(FixedPlan(pairs))
    label_ND = labels.vectors[labels.row_of_text[run.corpus.english[pairs]]]
    pooling = SentenceEncoder(model.encoder, None, normalized=False)
    sides = np.concatenate([run.corpus.english[pairs], run.corpus.other[pairs]]).astype(np.int64)
    weight_DH, bias_D = linear_fit(encoded(run, pooling, sides), np.tile(label_ND, (2, 1)), ridge=HEAD_RIDGE)
    model.head = nn.Linear(weight_DH.shape[1], len(weight_DH))
    model.head.load_state_dict({"weight": torch.from_numpy(weight_DH), "bias": torch.from_numpy(bias_D)})


def lexical_embeddings(run: Run, base_tokenizer: PreTrainedTokenizerFast, table_TH: Tensor) -> Tensor:
    """Word embeddings of the new vocabulary, (V, H), by ridge regression on the base's."""
    config, corpus = run.config.lexical, run.corpus
    plan = run.plan(config.pairs, purpose="lexical").all_rounds()
    english = np.unique(corpus.english[plan])
    texts = np.concatenate([corpus.other[plan], english])
    sources = np.concatenate([corpus.english[plan], english])
    target_NH = base_bags([corpus.texts[index] for index in sources], base_tokenizer, table_TH)
    vocabulary = run.tokenizer.get_vocab()
    return solve_ridge(
        text_bags(run.tokens, texts, len(vocabulary)),
        target_NH,
        prior_embeddings(vocabulary, base_tokenizer, table_TH),
        ridge=config.ridge,
        iterations=config.iterations,
    )


def shrink(run: Run, folder: Path) -> None:
    """Build the student before training, from the assistant."""
    assistant = run.load(run.assistant)
    frequency_V = run.tokens.counts(assistant.encoder.config.vocab_size)
    student = student_from_assistant(assistant, run.config.student, frequency_V, seed=run.config.seed).to(run.device)
    if run.config.head == "fitted":
        fit_head(run, student)
    run.save(student, folder)


def train_stage(run: Run, name: Stage, folder: Path) -> None:
    """Train a stage on its whole plan, then save the model; stage 4 alone is single-stage training."""
    if name == "passages":
        teach_passages(run, folder)
        return
    plan, config = run.stage_plan(name), run.config.stage(name)
    pairs, before = run.pair_encoder(config), run.load(run.before(name))
    match config:
        case BottleneckConfig():
            train_bottleneck(run, before, pairs, config, folder)
            return
        case ContrastiveConfig():
            objective = contrastive_objective(before, run.teacher_labels(plan), pairs, config)
        case StudentStageConfig():
            assistant = run.load(run.assistant).requires_grad_(False)
            if config.compile:
                compile_layers(assistant.encoder)
            objective = student_objective(assistant, before, pairs, config)
        case _:
            objective = assistant_objective(before, run.teacher_labels(plan), pairs, config)
    train_and_save(run, name, objective, plan, folder)


def train_bottleneck(
    run: Run, student: SentenceEncoder, pairs: PairEncoder, config: BottleneckConfig, folder: Path
) -> None:
    """Stage 2: align the bottleneck; `alignment.json` holds the error of Eq. (3) before and after."""
    assistant = run.load(run.assistant)
    objective = bottleneck_objective(assistant, student, pairs, config)
    drawn = run.plan(ALIGNMENT_PAIRS, purpose="alignment").round(0)
    sample = length_bucketed(drawn, pairs.pair_lengths(drawn), 128, seed=0)
    before = mean_loss(objective, sample)
    train_and_save(run, "bottleneck", objective, run.stage_plan("bottleneck"), folder)
    after = mean_loss(bottleneck_objective(assistant, run.load("bottleneck"), pairs, config), sample)
    if is_main_process():
        write_json_atomically(folder / "alignment.json", {"before": before, "after": after})


def score(run: Run, step: str, folder: Path) -> None:
    """Score the model of a step."""
    rows = run.config.evaluation.model_dump(include={"sts_rows", "tatoeba_rows"})
    scores = evaluate(run.text_encoder(run.load(step)), run.scored, run.config.scored_languages, **rows)
    write_json_atomically(folder / "scores.json", scores)


def finish(run: Run, folder: Path) -> None:
    """Write the checkpoint to export: the last model, rotated if asked for, and the data for its model card."""
    model, corpus = run.load(run.models[-1]), run.corpus
    if run.config.first_dimensions:
        of_language = (np.flatnonzero(corpus.language_code == code) for code in range(len(corpus.languages)))
        spread = [rows[np.linspace(0, len(rows) - 1, ROTATED_PAIRS).astype(int)] for rows in of_language if len(rows)]
        pairs = np.unique(np.concatenate(spread))
        left_ND, right_ND = (encoded(run, model, side[pairs]) for side in (corpus.english, corpus.other))
        rotate(model, fit_rotation(left_ND, right_ND, run.config.first_dimensions, seed=run.config.seed))
    run.save(model, folder)
    write_summary(run, folder / CHECKPOINT)


def train_and_save(run: Run, name: Stage, objective: Objective, plan: Plan, folder: Path) -> None:
    """Train on a whole plan, then save the model."""
    config, model = run.config.stage(name), objective.model
    assert isinstance(model, SentenceEncoder)  # noqa: S101  (for the type checker)
    if config.compile:
        compile_layers(model.encoder)
    if config.round_words:
        train_with_rounded_words(model.encoder)
    batches = BatchStream(
        plan,
        run.pair_encoder(config).pair_lengths,
        config.batch_size,
        seed=run.config.seed,
        epoch_pairs=run.corpus.count(config.sources),
        bucketed=config.bucketed,
    )
    train(
        objective,
        batches,
        config,
        folder,
        name=name,
        checkpoint_minutes=run.config.checkpoint_minutes,
        device=run.device,
        validate=run.validation(model) if config.validate_pairs else None,
    )
    on_main_process(lambda: run.save(model, folder))


def mean_loss(objective: Objective, batches: list[NDArray[np.int64]]) -> float:
    """Mean objective over some batches, without gradients."""
    with torch.no_grad():
        totals = [sum(value.item() for value in objective.losses(batch).values()) for batch in batches]
    return round(sum(totals) / len(totals), 5)
