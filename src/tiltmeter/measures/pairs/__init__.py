"""How alike two texts are: BLEU, ROUGE-L and cosine of aligned pairs."""

from __future__ import annotations

from tiltmeter.measures.pairs._mask import mask_words
from tiltmeter.measures.pairs._overlap import bleu, rouge_l
from tiltmeter.measures.pairs._vectors import cosine

__all__ = ["bleu", "cosine", "mask_words", "rouge_l"]
