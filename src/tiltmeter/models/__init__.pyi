from .base import (
    Classifier as Classifier,
    Completion as Completion,
    Encoder as Encoder,
    Message as Message,
    Model as Model,
    ModelError as ModelError,
    Sampling as Sampling,
)
from .endpoints import ENDPOINTS as ENDPOINTS, Endpoint as Endpoint
from .function import model_of as model_of
from .options import refuse_secrets as refuse_secrets
from .providers import (
    PROVIDERS as PROVIDERS,
    create_model as create_model,
    provider_factory as provider_factory,
    sampling_from_options as sampling_from_options,
)
from .text_models import SentenceEncoder as SentenceEncoder, TextClassifier as TextClassifier
