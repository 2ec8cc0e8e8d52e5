"""A scripted model on loopback: real coding agents run against it, with no network and no key."""

from tests.services.fake_model.server import FakeModel, Request, fake_model

__all__ = ["FakeModel", "Request", "fake_model"]
