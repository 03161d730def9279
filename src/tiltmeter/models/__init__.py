"""How one text comes from one model: the `Model` protocol and its providers."""

from tiltmeter.models._base import Completion, Message, Model, ModelError, Sampling
from tiltmeter.models._create import create_model, sampling_from_options

__all__ = ["Completion", "Message", "Model", "ModelError", "Sampling", "create_model", "sampling_from_options"]
