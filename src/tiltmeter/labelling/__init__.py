"""Labels of responses by people: samples to label, and how well the responses were read."""
