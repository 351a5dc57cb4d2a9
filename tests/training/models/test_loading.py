"""A model folder is loaded whole, and runs no code, or is refused with a sentence that says what is wrong."""

import json
import re
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import Unigram
from torch import nn
from transformers import AutoTokenizer, BertForMaskedLM, PreTrainedTokenizerFast

from export.bi_encoder import read_checkpoint
from export.errors import BadCheckpoint
from tests.export.checkpoints import save_student
from training.config.parsing import build
from training.config.run import RunConfig
from training.errors import ConfigError, EvaluationError, LoadError
from training.evaluation.encoders import load_model
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder
from training.models.sentence_encoder import CrossletTransformer, load_sentence_encoder
from training.models.teacher import load_teacher
from training.pipeline.params import base_shape
from training.pipeline.run import Run


def pooling_code(folder: Path) -> str:
    """A module that leaves a file in the folder when it is run; transformers runs a copy of it elsewhere."""
    return f"""
from pathlib import Path
from sentence_transformers.sentence_transformer.modules import Pooling

Path({str(folder / "ran")!r}).touch()

class MyPooling(Pooling):
    pass
"""


MODULES = "sentence_transformers.models"
CUSTOM = "custom_pool.MyPooling"
CUSTOM_POOLING = {"modules.json": {1: {"type": CUSTOM}}}
CUSTOM_MODEL = {"config.json": {"auto_map": {"AutoModel": CUSTOM}}}


def change(folder: Path, files: dict[str, dict]) -> None:
    """Change values of JSON files, of modules.json by place; a file that is not there has these alone."""
    for name, changes in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        content = json.loads(path.read_text()) if path.exists() else {}
        if isinstance(content, list):
            for place, values in changes.items():
                content[place] |= values
        else:
            content |= changes
        path.write_text(json.dumps(content))


def add_dense(folder: Path, config: dict[str, object]) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": f"{MODULES}.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    change(folder, {"3_Dense/config.json": {"in_features": 384, "out_features": 8, **config}})
    weights = {"linear.weight": torch.zeros(8, 384), "linear.bias": torch.zeros(8)}
    save_file(weights, folder / "3_Dense/model.safetensors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    whole = packaged_folder("sentence-transformers/all-MiniLM-L6-v2")
    assert whole is not None
    return Path(shutil.copytree(whole, tmp_path / "model"))


def load(folder: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(folder), device="cpu")


def refused_everywhere(folder: Path, named: str) -> None:
    """By the exporter, the evaluation and training."""
    with pytest.raises(BadCheckpoint, match=named):
        read_checkpoint(folder, name="a", languages=("en",))
    with pytest.raises(EvaluationError, match=named):
        load_model(str(folder))
    with pytest.raises(ConfigError, match=named):
        load_teacher(str(folder), device=torch.device("cpu"))


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def without(part: str) -> Callable[[dict[str, torch.Tensor]], None]:
    """Drops the tensors that have this in their name."""

    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if part in name]:
            del tensors[name]

    return change


def with_a_seventh_layer(tensors: dict[str, torch.Tensor]) -> None:
    for name in [name for name in tensors if "encoder.layer.5." in name]:
        tensors[name.replace("layer.5", "layer.6")] = tensors[name].clone()


def with_a_short_table(tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    tensors[name] = tensors[name][:100].clone()


LAYER = "encoder.layer.3."
LACKS_LAYER = r"lacks 16 tensors of the body, the first encoder\.layer\.3\."


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (without(LAYER), LACKS_LAYER),
        (with_a_seventh_layer, r"has, unknown to its configuration, 16 tensors of the body, the first \S*layer\.6\."),
        (with_a_short_table, r"tensor embeddings\.word_embeddings\.weight does not have the shape \(30522, 384\)"),
    ],
)
def test_incomplete_checkpoint_is_refused_everywhere(
    change: Callable[[dict[str, torch.Tensor]], None], named: str, folder: Path
) -> None:
    rewrite(folder, change)
    refused_everywhere(folder, named)


def test_a_pooler_may_be_absent_unless_it_is_read(folder: Path) -> None:
    rewrite(folder, without("pooler"))
    load(folder)
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{MODULES}.Transformer"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    reads = {"text": {"method": "forward", "method_output_name": "pooler_output"}}
    read_as = {"modality_config": reads, "module_output_name": "sentence_embedding"}
    change(folder, {"sentence_bert_config.json": read_as})
    with pytest.raises(LoadError, match=r"lacks 2 tensors of the body, the first pooler\.dense\.bias"):
        load(folder)


def test_a_masked_language_model_is_a_whole_base(folder: Path) -> None:
    for name in ("modules.json", "model.safetensors"):
        (folder / name).unlink()
    whole = packaged_folder("sentence-transformers/all-MiniLM-L6-v2")
    BertForMaskedLM.from_pretrained(whole).save_pretrained(folder)  # its body under "bert.", with a head beside it
    load(folder)


def test_code_of_a_folder_runs_only_when_it_is_trusted(folder: Path) -> None:
    change(folder, CUSTOM_POOLING)
    (folder / "custom_pool.py").write_text(pooling_code(folder))
    refused_everywhere(
        folder, r"its modules\.json names custom_pool\.MyPooling, which is not a class of .*--trust-remote-code"
    )
    assert not (folder / "ran").exists()
    model = load_teacher(str(folder), device=torch.device("cpu"), trust_remote_code=True)
    assert type(model[1]).__name__ == "MyPooling"
    assert (folder / "ran").exists()  # so the other tests would see it


def test_trusted_code_does_not_excuse_missing_weights(folder: Path) -> None:
    rewrite(folder, without(LAYER))
    with pytest.raises(LoadError, match=LACKS_LAYER):
        load_sentence_transformer(str(folder), device="cpu", trust_remote_code=True)


ROUTER = {"modules.json": {0: {"type": f"{MODULES}.Router"}}}
WORDS = {"modules.json": {0: {"type": f"{MODULES}.WordEmbeddings"}}}
REPOSITORY = "training.models.sentence_encoder.nobody/nothing--custom.Pool"  # the part before -- is a repository


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"modules.json": {1: {"type": REPOSITORY}}}, REPOSITORY),
        ({"modules.json": {1: {"type": "sentence_transformers.CrossEncoder"}}}, "sentence_transformers.CrossEncoder"),
        (ROUTER | {"router_config.json": {"types": {"query_0": CUSTOM}}}, CUSTOM),
        (
            ROUTER
            | {"router_config.json": {"types": {"query_0": f"{MODULES}.Router"}}}
            | {"query_0/config.json": {"types": {"0": CUSTOM}}},
            CUSTOM,
        ),
        (WORDS | {"wordembedding_config.json": {"tokenizer_class": CUSTOM}}, CUSTOM),
        (CUSTOM_MODEL, CUSTOM),
        ({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": [None, CUSTOM]}}}, CUSTOM),
        ({"sentence_bert_config.json": {"model_args": {"attn_implementation": "someone/kernel"}}}, "someone/kernel"),
    ],
)
def test_code_is_refused_wherever_a_folder_names_it(files: dict[str, dict], named: str, folder: Path) -> None:
    change(folder, files)
    (folder / "custom_pool.py").write_text(pooling_code(folder))
    with pytest.raises(LoadError, match=re.escape(f"{list(files)[-1]} names {named}")):
        load(folder)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("activation", [CUSTOM, "torch.utils.collect_env.main"])
def test_an_activation_that_is_no_module_of_torch_is_refused(activation: str, folder: Path) -> None:
    add_dense(folder, {"activation_function": activation})
    (folder / "custom_pool.py").write_text(pooling_code(folder))
    with pytest.raises(LoadError, match=re.escape(f"3_Dense/config.json names {activation}")):
        load(folder)
    assert not (folder / "ran").exists()


def test_the_size_of_a_base_with_code_of_its_own_is_not_guessed(folder: Path) -> None:
    change(folder, CUSTOM_MODEL)
    with pytest.raises(LoadError, match=r"config\.json names custom_pool\.MyPooling"):
        base_shape(str(folder))


class Touch:
    """Pickled, it makes a file where it is unpickled without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("has_code", [False, True])
def test_pickled_weights_run_no_code(folder: Path, tmp_path: Path, has_code: bool) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors | ({"other": Touch(tmp_path / "ran")} if has_code else {}), folder / "pytorch_model.bin")
    change(folder, {"sentence_bert_config.json": {"model_args": {"weights_only": False}}})
    with pytest.raises(LoadError) if has_code else nullcontext():
        load(folder)
    assert not (tmp_path / "ran").exists()


def test_a_folder_cannot_allow_itself_other_shapes(folder: Path) -> None:
    rewrite(folder, with_a_short_table)
    change(folder, {"sentence_bert_config.json": {"model_args": {"ignore_mismatched_sizes": True}}})
    with pytest.raises(LoadError, match=r"tensor embeddings\.word_embeddings\.weight does not have the shape"):
        load(folder)


@pytest.mark.parametrize("name", ["linear.bias", "other"])
def test_a_dense_module_is_checked_by_the_name_of_its_tensor(name: str, folder: Path) -> None:
    add_dense(folder, {})
    tensors = {"linear.weight": torch.zeros(8, 384), "linear.bias": torch.zeros(8)}
    if tensors.pop(name, None) is None:
        tensors[name] = torch.zeros(1)
    save_file(tensors, folder / "3_Dense/model.safetensors")
    with pytest.raises(LoadError, match=name):
        load(folder)


def test_a_body_inside_a_route_is_checked_too(folder: Path, tmp_path: Path) -> None:
    whole = Router.for_query_document(
        [Transformer(str(folder)), Pooling(384)], [Transformer(str(folder)), Pooling(384)]
    )
    SentenceTransformer(modules=[whole], device="cpu").save(str(tmp_path / "routes"), create_model_card=False)
    load(tmp_path / "routes")
    rewrite(tmp_path / "routes/document_0_Transformer", without(LAYER))
    with pytest.raises(LoadError, match=LACKS_LAYER):
        load(tmp_path / "routes")


def test_a_checkpoint_of_ours_is_checked_like_any_other(tmp_path: Path) -> None:
    save_student(tmp_path)
    load_sentence_encoder(tmp_path)
    rewrite(tmp_path, without("word_embeddings.table"))
    with pytest.raises(
        LoadError, match=r"lacks 1 tensors of the body, the first body\.embeddings\.word_embeddings\.table"
    ):
        load_sentence_encoder(tmp_path)


def linear(width: int, dim: int) -> Dense:
    return Dense(width, dim, activation_function=nn.Identity())


@pytest.mark.parametrize(
    ("modules", "names"),
    [
        ([linear(128, 24), linear(24, 12)], "Dense, Dense"),
        ([Dense(128, 24)], "Pooling, Dense"),
        ([Normalize(), linear(128, 128), Normalize()], "Normalize, Dense, Normalize"),
    ],
    ids=["two heads", "a head with tanh", "a head of `crosslet align`"],
)
def test_checkpoint_with_more_behind_its_encoder_is_refused(
    tmp_path: Path, modules: list[nn.Module], names: str
) -> None:
    save_student(tmp_path / "student")
    whole = list(SentenceTransformer(str(tmp_path / "student"), device="cpu"))[:2] + modules
    SentenceTransformer(modules=whole, device="cpu").save(str(tmp_path / "more"), create_model_card=False)
    with pytest.raises(LoadError, match=f"it has .*{names} behind its encoder; mean pooling, one Dense"):
        load_sentence_encoder(tmp_path / "more")


def test_token_without_an_embedding_is_refused(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["zzznew"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ConfigError, match=r"token 'zzznew' has id 30522, but there are 30522 word embeddings"):
        load_teacher(str(folder), device=torch.device("cpu"))


def test_a_run_trusts_code_where_its_configuration_says_so(folder: Path, tmp_path: Path) -> None:
    change(folder, CUSTOM_POOLING)
    (folder / "custom_pool.py").write_text(pooling_code(folder))
    corpus = {"sources": {"news": {}}}
    values = {"name": "x", "languages": ["de"], "corpus": corpus, "stages": [], "teacher": str(folder)}
    run = Run(build(RunConfig, values, where="test"), tmp_path, tmp_path)
    for load in (run.load_base, lambda: run.label_shape):
        with pytest.raises(ConfigError, match=r"trust_remote_code: true"):
            load()
    trusting = Run(build(RunConfig, {**values, "trust_remote_code": True}, where="test"), tmp_path, tmp_path)
    assert type(trusting.load_base()[1]).__name__ == "MyPooling"
    assert trusting.label_shape == (384, True)


@pytest.mark.parametrize("file", ["training.models.sentence_encoder.py", "training/models/sentence_encoder.py"])
def test_a_file_under_the_name_of_our_own_module_does_not_run(file: str, folder: Path) -> None:
    change(folder, {"modules.json": {0: {"type": "training.models.sentence_encoder.CrossletTransformer"}}})
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(pooling_code(folder))
    assert type(load(folder)[0]) is CrossletTransformer
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "modules.json"])
def test_a_pointer_of_git_lfs_in_a_model_is_named(tmp_path: Path, name: str) -> None:
    save_student(tmp_path / "model")
    (tmp_path / "model" / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n")
    with pytest.raises(LoadError, match=f"{name} is a Git LFS pointer, not the file itself: run `git lfs pull`"):
        load(tmp_path / "model")


def test_a_pointer_that_nothing_reads_does_no_harm(tmp_path: Path) -> None:
    save_student(tmp_path)
    (tmp_path / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\n")
    load(tmp_path)


def test_a_large_vocabulary_is_not_taken_for_one_of_mistrals(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pieces = [(f"piece{number}", -10.0) for number in range(100_100)]
    specials = {"unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = Tokenizer(Unigram([("<unk>", 0.0), ("<pad>", 0.0), ("a", -1.0), *pieces], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    save_student(tmp_path, tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials))
    model = load(tmp_path)
    assert "incorrect" not in capfd.readouterr().err
    model.save(str(tmp_path / "again"), create_model_card=False)
    assert "mistral" not in (tmp_path / "again" / "tokenizer_config.json").read_text(encoding="utf-8")
