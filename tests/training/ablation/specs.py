"""An ablation whose cells are already trained, as far as a report can tell: scores, logs and checkpoints by hand."""

import json
from pathlib import Path

import yaml

from tests.training.tiny import tiny_encoder
from training.ablation.runner import Trial, plan_trials
from training.ablation.spec import AblationSpec, load_spec, read_cells
from training.models.sentence_encoder import SentenceEncoder, save_sentence_encoder

SMOKE = Path(__file__).parents[3] / "training/configs/smoke.yaml"
RUNS = {
    "full": {},
    "w/o MCL": {"contrastive": {"objective": "none"}},
    "w/o Rec.": {"student.recurrences": 1},
    "M=6": {"student": {"unit_layers": 6, "recurrences": 1}},
}


def write_spec(folder: Path, **changes: object) -> Path:
    """A spec beside a base that the tests' own data folder can serve."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base.yaml").write_text(SMOKE.read_text(encoding="utf-8"), encoding="utf-8")
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump({"base": "base.yaml", "runs": RUNS, **changes}, sort_keys=False), encoding="utf-8")
    return path


def plan(path: Path, data: Path, out: Path) -> tuple[AblationSpec, list[Trial]]:
    spec = load_spec(path)
    return spec, plan_trials(read_cells(spec, path), data, out)


def finish(trial: Trial, *, mono: float, cross: float, tokenizer=None, seconds: float = 60.0) -> None:
    """Leave what training this cell would have left; with a tokenizer, checkpoints that load."""
    for step, folder in trial.folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        record = {"git_commit": "0123456789abcdef", "hardware": "a CPU, 2 cores", "last_run_s": seconds}
        (folder / "done.json").write_text(json.dumps({**record, "resumed": False}))
        if step.endswith("-scores"):
            write_scores(folder, mono=mono, cross=cross)
        elif step in ("start", *trial.cell.config.stages):
            write_logs(folder, epochs=[1.0, 2.0], scores=[cross - 1, cross])
            write_checkpoint(folder / "checkpoint", trial, tokenizer)


def write_scores(folder: Path, *, mono: float, cross: float) -> None:
    values = {
        "stsb_test": {"en-de": cross + 1, "en-es": cross - 1, "average": cross},
        "stsb_test_monolingual": {"en-en": mono, "average": mono},
        "tatoeba_p1": {"de": 90.0, "es": 92.0, "average": 91.0},
    }
    (folder / "scores.json").write_text(json.dumps(values))


def write_logs(folder: Path, *, epochs: list[float], scores: list[float]) -> None:
    log, dev = [], []
    for number, (epoch, score) in enumerate(zip(epochs, scores, strict=True), start=1):
        place = {"step": 50 * number, "pairs": 1000 * number, "epoch": epoch}
        log.append({**place, "source": 0.5 / number, "target": 0.6 / number, "learning_rates": [1e-4]})
        dev.append({**place, "score": score, "by_pair": {"en-de": score + 1, "en-es": score - 1}})
    for name, lines in (("log.jsonl", log), ("dev.jsonl", dev)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_checkpoint(folder: Path, trial: Trial, tokenizer) -> None:
    student = trial.cell.config.student
    encoder = tiny_encoder(
        layers=student.unit_layers, recurrences=student.recurrences, bottleneck_size=4, seed=len(trial.cell.name)
    )
    if tokenizer is None:
        encoder.config.save_pretrained(folder)
    else:
        save_sentence_encoder(SentenceEncoder(encoder, normalized=True), tokenizer, folder, max_length=24)
