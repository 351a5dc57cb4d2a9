import pytest
import torch
from transformers import PreTrainedTokenizerFast

from tests.vocabularies import bpe
from training.vocabulary.tokenizer import wrap_tokenizer

torch.set_num_threads(1)  # tiny tensors: a second thread costs more than it brings


@pytest.fixture(scope="session")
def small_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    """Of a few English and German words."""
    tokenizer = bpe(["a man plays the guitar", "der mann spielt gitarre", "der hund bellt"])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return wrap_tokenizer(path, max_length=24)
