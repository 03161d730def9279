from .base import (
    Classifier as Classifier,
    Completion as Completion,
    Encoder as Encoder,
    Message as Message,
    Model as Model,
    ModelError as ModelError,
    Sampling as Sampling,
    create_model as create_model,
    provider_factory as provider_factory,
    refuse_secrets as refuse_secrets,
    sampling_from_options as sampling_from_options,
)
from .endpoints import ENDPOINTS as ENDPOINTS, Endpoint as Endpoint
from .function import model_of as model_of
from .text_models import SentenceEncoder as SentenceEncoder, TextClassifier as TextClassifier
