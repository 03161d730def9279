"""How one text comes from one model: the `Model` protocol and its providers."""

from tiltmeter.models._base import Completion, Message, Model, ModelError, Sampling
from tiltmeter.models._create import create_model, provider_factory, sampling_from_options
from tiltmeter.models._endpoints import ENDPOINTS, Endpoint
from tiltmeter.models._options import refuse_secrets

__all__ = [
    "ENDPOINTS",
    "Completion",
    "Endpoint",
    "Message",
    "Model",
    "ModelError",
    "Sampling",
    "create_model",
    "provider_factory",
    "refuse_secrets",
    "sampling_from_options",
]
