"""Questions to a judge, and the reading of its replies."""
