"""BBQ, questions about stereotypes (Parrish et al. 2022): nine categories, and two crossed ones.

Each category is a part of the study `bbq`. The table `categories.yaml` says what differs between them.
"""
