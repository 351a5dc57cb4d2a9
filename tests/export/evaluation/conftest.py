from tests.training.conftest import small_tokenizer

__all__ = ["small_tokenizer"]
