from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from transformers import AutoModel, BertConfig, PretrainedConfig, PreTrainedTokenizerFast, RobertaConfig, T5Config

from training.config import StudentConfig
from training.errors import ConfigError
from training.stages.start import assistant_from_base, check_shrinkable

SIZES = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
BERT = BertConfig(vocab_size=60, **SIZES)
ROBERTA = RobertaConfig(vocab_size=60, max_position_embeddings=40, **SIZES)  # its padding id is 1


def teacher(
    config: PretrainedConfig, tokenizer: PreTrainedTokenizerFast, folder: Path, *, dim: int
) -> SentenceTransformer:
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    modules = [Transformer(str(folder)), Pooling(16, pooling_mode="mean")]
    if dim != 16:
        modules.append(Dense(16, dim))
    return SentenceTransformer(modules=[*modules, Normalize()], device="cpu")


@pytest.mark.parametrize("config", [BERT, ROBERTA], ids=lambda config: config.model_type)
def test_with_the_teachers_own_word_embeddings_the_assistant_reads_as_the_teacher(
    config: PretrainedConfig, small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    model = teacher(config, small_tokenizer, tmp_path / "teacher", dim=16)
    body = model[0].auto_model.eval()
    words_VH = body.get_input_embeddings().weight.detach()
    assistant = assistant_from_base(model, model, words_VH, pad_id=0, seed=1).eval()
    assert assistant.head is None
    assert assistant.normalized
    input_ids = torch.tensor([[2, 9, 8, 7, 3], [2, 11, 12, 13, 3]])
    mask = torch.ones_like(input_ids)
    with torch.no_grad():
        expected = body(input_ids=input_ids, attention_mask=mask).last_hidden_state
        actual = assistant.encoder(input_ids, mask).last_hidden_state
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


def test_a_teacher_of_another_width_gets_a_head(small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model = teacher(BERT, small_tokenizer, tmp_path / "teacher", dim=12)
    words_VH = model[0].auto_model.get_input_embeddings().weight.detach()
    assistant = assistant_from_base(model, model, words_VH, pad_id=0, seed=1)
    ids = torch.tensor([[2, 9, 3]])
    assert assistant(ids, torch.ones_like(ids)).shape == (1, 12)


@pytest.mark.parametrize(
    ("body", "student", "complaint"),
    [
        (T5Config(), StudentConfig(), "of type 't5'; known types: bert"),
        (BERT, StudentConfig(unit_layers=3, bottleneck_size=4), "unit_layers is 3; the base encoder allows 2"),
        (BERT, StudentConfig(unit_layers=2, bottleneck_size=17), "bottleneck_size is 17; the base encoder allows 16"),
        (ROBERTA, StudentConfig(unit_layers=2, bottleneck_size=4), "max_length is 128; the base encoder allows 38"),
    ],
)
def test_a_student_that_cannot_come_from_the_base_is_refused_before_training(
    body: PretrainedConfig, student: StudentConfig, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_shrinkable(body, student)
