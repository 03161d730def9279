from ._base import (
    Classifier as Classifier,
    Completion as Completion,
    Encoder as Encoder,
    Message as Message,
    Model as Model,
    ModelError as ModelError,
    Sampling as Sampling,
)
from ._endpoints import ENDPOINTS as ENDPOINTS, Endpoint as Endpoint
from ._function import model_of as model_of
from ._options import refuse_secrets as refuse_secrets
from ._providers import (
    PROVIDERS as PROVIDERS,
    create_model as create_model,
    provider_factory as provider_factory,
    sampling_from_options as sampling_from_options,
)
from ._text_models import SentenceEncoder as SentenceEncoder, TextClassifier as TextClassifier
