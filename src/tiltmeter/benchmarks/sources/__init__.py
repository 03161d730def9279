"""Sources of sentences: pages of a wiki, files, given addresses, texts a model writes; and the sentences found in them."""

from tiltmeter.benchmarks.sources._collect import collect_pages
from tiltmeter.benchmarks.sources._files import read_files
from tiltmeter.benchmarks.sources._manners import Manners
from tiltmeter.benchmarks.sources._mediawiki import WIKIPEDIA, MediaWiki, WikiPage
from tiltmeter.benchmarks.sources._pages import Link, Pages, join_pages
from tiltmeter.benchmarks.sources._scrape import missing, scrape, whole_words
from tiltmeter.benchmarks.sources._urls import read_urls
from tiltmeter.benchmarks.sources._written import write_articles

__all__ = [
    "WIKIPEDIA",
    "Link",
    "Manners",
    "MediaWiki",
    "Pages",
    "WikiPage",
    "collect_pages",
    "join_pages",
    "missing",
    "read_files",
    "read_urls",
    "scrape",
    "whole_words",
    "write_articles",
]
