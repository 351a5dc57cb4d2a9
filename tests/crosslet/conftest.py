from tests.service.conftest import client, serve

__all__ = ["client", "serve"]
