"""For other people's tests: assertions on a model, and suites that plugins must pass."""
