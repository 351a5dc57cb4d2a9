"""Sentences a second of each training stage: crosslet's loop against the same step in sentence-transformers' trainer.

`python -m benchmarks.training --data DIR [--write]`, DIR as docs/training.md says. Same model, vocabulary, pairs, batch
size, loss and precision (bf16 where the CPU has it); rounds are interleaved, medians are compared. Theirs is the recipe
of their make-multilingual example: a column of labels that the teacher gave beforehand, MSELoss, bf16=True. It runs
with torch's fused attention (their default) and with the eager one, and ours is held against the faster of the two.
Theirs tokenises in every step, ours once beforehand: the time of that is reported, and not in ours. In stage 3 both
compute the assistant's embeddings as they go. `--cpu-seconds` counts processor time, on a machine that others use too.
"""

from __future__ import annotations

import argparse
import copy
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MSELoss
from torch import Tensor, nn
from transformers import TrainerCallback
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from training.batches import BatchStream, FixedPlan
from training.config import StudentConfig
from training.corpora.corpus import Corpus
from training.corpora.readers import find_pair_file, read_pairs
from training.device import has_bf16
from training.hardware import describe_hardware
from training.loop import Objective, train
from training.losses import embedding_mse, multilingual_contrastive, token_embedding_mse
from training.sentence import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.stages.assistant import assistant_objective
from training.stages.bottleneck import bottleneck_objective
from training.stages.config import ContrastiveConfig, StageConfig
from training.stages.contrastive import contrastive_objective
from training.stages.pairs import PairEncoder, TeacherLabels
from training.stages.shrink import student_from_assistant
from training.stages.start import assistant_from_base
from training.stages.student import student_objective
from training.teacher import load_teacher
from training.tokens import TokenStore

TEACHER = "sentence-transformers/all-MiniLM-L6-v2"
CPU = torch.device("cpu")
STUDENT = StudentConfig(bottleneck_size=128, unit_layers=3, recurrences=2)
PAGE = Path(__file__).parents[1] / "docs/benchmarks-training.md"
STAGES = {
    "assistant": "1, eq. (2)",
    "bottleneck": "2, eq. (3)",
    "student": "3, eq. (4)",
    "contrastive": "4, eqs. (5)-(7)",
}


@dataclass(frozen=True)
class Bench:
    """What both trainers get."""

    english: list[str]
    other: list[str]
    label_ND: np.ndarray
    pairs: PairEncoder
    folders: dict[str, Path]  # "assistant" and "student", as checkpoints
    batch_size: int
    max_length: int
    clock: Callable[[], float]

    @property
    def labels(self) -> TeacherLabels:
        return TeacherLabels(self.label_ND, np.arange(len(self.label_ND)))

    def model(self, name: str) -> SentenceEncoder:
        return load_sentence_encoder(self.folders[name], attention="eager").eval()


# ── ours ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_ours(bench: Bench, stage: str) -> float:
    """Seconds of `train` over all pairs."""
    settings = {"pairs": len(bench.english), "batch_size": bench.batch_size, "max_length": bench.max_length}
    config = ContrastiveConfig(**settings) if stage == "contrastive" else StageConfig(**settings)
    objective = our_objective(bench, stage, config)
    plan = FixedPlan(np.arange(len(bench.english)))
    batches = BatchStream(plan, bench.pairs.pair_lengths, bench.batch_size, seed=0, epoch_pairs=len(plan))
    with tempfile.TemporaryDirectory() as folder:
        started = bench.clock()
        train(objective, batches, config, Path(folder), name=stage, checkpoint_minutes=60, device=CPU)
        return bench.clock() - started


def our_objective(bench: Bench, stage: str, config: Any) -> Objective:
    if stage == "assistant":
        return assistant_objective(bench.model("assistant"), bench.labels, bench.pairs)
    assistant, student = bench.model("assistant").requires_grad_(False), bench.model("student")
    if stage == "bottleneck":
        return bottleneck_objective(assistant, student, bench.pairs)
    if stage == "student":
        return student_objective(assistant, student, bench.pairs)
    return contrastive_objective(student, bench.labels, bench.pairs, config)


# ── theirs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Stopwatch(TrainerCallback):
    """The time between the trainer's first batch and its last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.seconds = clock, 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.seconds -= self.clock()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.seconds += self.clock()


class TheirLoss(nn.Module):
    """A stage's loss as a module that their trainer calls with the features of both columns and the labels."""

    def __init__(self, model: SentenceTransformer, assistant: SentenceTransformer | None, stage: str) -> None:
        super().__init__()
        self.model, self.stage = model, stage
        self.frozen = [assistant]  # in a list: no part of what is trained

    def forward(self, features: list[dict[str, Tensor]], label_BD: Tensor) -> Tensor:
        if self.stage == "bottleneck":
            return sum(self.tokens(side) for side in features) / 2
        h_source, h_target = (self.model(dict(side))["sentence_embedding"] for side in features)
        if self.stage == "student":
            with torch.no_grad():
                a_source, a_target = (self.frozen[0](dict(side))["sentence_embedding"] for side in features)
            return embedding_mse(h_source, a_source) + embedding_mse(h_target, a_target)
        distilled = embedding_mse(h_source, label_BD) + embedding_mse(h_target, label_BD)
        return distilled + multilingual_contrastive(label_BD, h_source, h_target)

    def tokens(self, side: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            expected = self.frozen[0][0].auto_model.embed_tokens(side["input_ids"])
        return token_embedding_mse(
            self.model[0].auto_model.embed_tokens(side["input_ids"]), expected, side["attention_mask"]
        )


def run_theirs(bench: Bench, stage: str, attention: str) -> float:
    """Seconds of their trainer over the same pairs."""
    name = "assistant" if stage == "assistant" else "student"
    model, assistant = (load_theirs(bench, which, attention) for which in (name, "assistant"))
    assistant.requires_grad_(False)
    if stage == "bottleneck":
        model.requires_grad_(False)
        model[0].auto_model.body.embeddings.requires_grad_(True)
    rows = {"english": bench.english, "non_english": bench.other, "label": list(bench.label_ND)}
    watch = Stopwatch(bench.clock)
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=bench.batch_size,
            learning_rate=2e-5,
            warmup_ratio=0.1,
            bf16=has_bf16(CPU),
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(rows),
            loss=MSELoss(model) if stage == "assistant" else TheirLoss(model, assistant, stage),
            callbacks=[watch],
        ).train()
    return watch.seconds


def load_theirs(bench: Bench, name: str, attention: str) -> SentenceTransformer:
    model = SentenceTransformer(
        str(bench.folders[name]), device="cpu", model_kwargs={"attn_implementation": attention, "dtype": torch.float32}
    )
    model.max_seq_length = bench.max_length
    return model


# ── the benchmark ─────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare(options: argparse.Namespace, work: Path) -> tuple[Bench, float]:
    """The pairs, the models and the seconds that tokenising took."""
    found = []
    for folder in sorted(path for path in (options.data / "parallel").iterdir() if path.is_dir()):
        for language in options.languages.split(","):
            path = find_pair_file(options.data / "parallel", folder.name, language)
            if path is not None:
                found += list(read_pairs(path, language))
    chosen = np.random.default_rng(0).permutation(len(found))[: options.steps * options.batch_size]
    english, other = ([found[index][side] for index in chosen] for side in (0, 1))
    teacher = load_teacher(TEACHER, device=CPU)
    started = time.perf_counter()
    rows = teacher.tokenizer(english + other, truncation=True, max_length=options.max_length)["input_ids"]
    tokenising_s = time.perf_counter() - started
    tokens = TokenStore(
        np.concatenate([np.array(row, dtype=np.int32) for row in rows]),
        np.concatenate([[0], np.cumsum([len(row) for row in rows])]),
        pad_id=0,
    )
    count = len(english)
    texts = {text: index for index, text in reversed(list(enumerate(english)))}  # a repeated text is one text
    corpus = Corpus(
        texts=english + other,
        english_count=count,
        english=np.array([texts[text] for text in english], dtype=np.int32),
        other=np.arange(count, 2 * count, dtype=np.int32),
        languages=["mixed"],
        sources=["mixed"],
        language_code=np.zeros(count, dtype=np.uint16),
        source_code=np.zeros(count, dtype=np.uint16),
    )
    assistant = assistant_from_base(teacher, teacher, pad_id=0, seed=0)
    frequency = np.bincount(tokens.ids, minlength=assistant.encoder.config.vocab_size)
    student = student_from_assistant(copy.deepcopy(assistant), STUDENT, frequency, seed=0)
    for name, model in (("assistant", assistant), ("student", student)):
        save_sentence_encoder(model, teacher.tokenizer, work / name, max_length=options.max_length)
    labels = teacher.encode(english, batch_size=64, show_progress_bar=False)
    pairs = PairEncoder(corpus, tokens, options.max_length, CPU)
    folders = {name: work / name for name in ("assistant", "student")}
    clock = time.process_time if options.cpu_seconds else time.perf_counter
    return Bench(english, other, labels, pairs, folders, options.batch_size, options.max_length, clock), tokenising_s


def measure(bench: Bench, stages: list[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Sentences a second by stage and trainer; the first round only warms up."""
    runners: dict[str, Callable[[str], float]] = {
        "ours": lambda stage: run_ours(bench, stage),
        "theirs, sdpa": lambda stage: run_theirs(bench, stage, "sdpa"),
        "theirs, eager": lambda stage: run_theirs(bench, stage, "eager"),
    }
    rates: dict[str, dict[str, list[float]]] = {stage: {name: [] for name in runners} for stage in stages}
    for number in range(rounds + 1):
        for stage in stages:
            for name, run in runners.items():
                rate = 2 * len(bench.english) / run(stage)
                print(f"round {number} {stage} {name}: {rate:.1f} sentences/s", flush=True)
                if number:
                    rates[stage][name].append(rate)
    return rates


def table(rates: dict[str, dict[str, list[float]]]) -> str:
    """Markdown."""
    lines = ["| stage | theirs, sdpa | theirs, eager | ours | ours to the faster of theirs |", "|---|--:|--:|--:|--:|"]
    for stage, by_name in rates.items():
        median = {name: statistics.median(values) for name, values in by_name.items()}
        ratio = median["ours"] / max(median["theirs, sdpa"], median["theirs, eager"])
        figures = " | ".join(f"{median[name]:.0f}" for name in ("theirs, sdpa", "theirs, eager", "ours"))
        lines.append(f"| {STAGES[stage]} | {figures} | **{ratio:.2f}** |")
    return "\n".join(lines)


def circumstances(options: argparse.Namespace, bench: Bench, tokenising_s: float) -> str:
    lengths = bench.pairs.tokens.lengths
    return (
        f"Sentences a {'second of processor time' if options.cpu_seconds else 'second'}. {describe_hardware()}, "
        f"torch {torch.__version__}, {'bf16' if has_bf16(CPU) else 'float32'}. Batches of {options.batch_size} pairs, "
        f"{options.steps} in a run, at most {options.max_length} tokens a sentence (mean {lengths.mean():.1f}, longest "
        f"{lengths.max()}), languages {options.languages}. Medians of {options.rounds} interleaved rounds after one to "
        f"warm up. Ours tokenised its {len(lengths)} sentences beforehand, in {tokenising_s:.2f} s."
    )


def command(options: argparse.Namespace) -> str:
    flags = {name: getattr(options, name) for name in ("languages", "batch_size", "max_length", "steps", "rounds")}
    text = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in flags.items())
    threads = f"OMP_NUM_THREADS={torch.get_num_threads()}"
    clock = " --cpu-seconds" if options.cpu_seconds else ""
    return f"`{threads} python -m benchmarks.training --data DIR {text}{clock}`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", default="de,fr,es,tr")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=16, help="batches a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--cpu-seconds", action="store_true", help="measure processor time in place of wall time")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    set_verbosity_error()
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as work:
        bench, tokenising_s = prepare(options, Path(work))
        rates = measure(bench, options.stages.split(","), options.rounds)
    page = "\n\n".join([table(rates), circumstances(options, bench, tokenising_s), command(options)])
    print(page)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- measured -->\n")
        after = rest.partition("<!-- end -->")[2]
        PAGE.write_text(f"{before}<!-- measured -->\n{page}\n<!-- end -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
