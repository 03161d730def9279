"""Counterfactual answers compared, toxicity of many answers a prompt, words in the company of groups; each with its uncertainty."""

from __future__ import annotations

from tiltmeter.benchmarks.counterfactual._associations import stereotypical_associations
from tiltmeter.benchmarks.counterfactual._cooccurrence import cooccurrence_bias
from tiltmeter.benchmarks.counterfactual._counterfactual import counterfactual
from tiltmeter.benchmarks.counterfactual._lists import default_words
from tiltmeter.benchmarks.counterfactual._toxicity import toxicity

__all__ = ["cooccurrence_bias", "counterfactual", "default_words", "stereotypical_associations", "toxicity"]
