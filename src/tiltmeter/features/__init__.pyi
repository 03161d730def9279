from ._catalogue import (
    FEATURES as FEATURES,
    OUTSIDE_FEATURES as OUTSIDE_FEATURES,
    open_features as open_features,
    outside_feature as outside_feature,
)
from ._clusters import Clusters as Clusters, cluster_texts as cluster_texts
from ._kinds import (
    Described as Described,
    Feature as Feature,
    Measured as Measured,
    columns_without_value as columns_without_value,
    measure_features as measure_features,
)
from ._overlap import bleu as bleu, cosine as cosine, mask_words as mask_words, rouge_l as rouge_l
from ._scoring import FeatureColumn as FeatureColumn
