"""Errors as values: with a place or other words they stay what they are."""

import pytest

from service.errors import HTTP_OF, InferenceFailed, MethodNotAllowed, Overloaded, ServiceError, TextTooLong

ERRORS = [
    TextTooLong("is too long"),
    Overloaded("is too much", retry_after_s=7),
    MethodNotAllowed("is not allowed", "GET"),
    InferenceFailed("failed"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_at_a_place_keeps_all_but_its_message(error: ServiceError) -> None:
    error.__cause__ = cause = ValueError("why")
    placed = error.at("inputs[3]")
    assert (str(placed), type(placed)) == (f"inputs[3] {error}", type(error))
    assert vars(placed) == vars(error)
    assert placed.__cause__ is cause
    assert "inputs[3]" not in str(error)


def test_every_service_error_has_a_status() -> None:
    assert set(ServiceError.__subclasses__()) <= HTTP_OF.keys()
