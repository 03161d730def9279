from .keywords import (
    AskedKeywords as AskedKeywords,
    ask_keywords as ask_keywords,
    given_keywords as given_keywords,
    join_keywords as join_keywords,
    linked_keywords as linked_keywords,
    nearest as nearest,
    non_containing as non_containing,
    scrape as scrape,
    similar_keywords as similar_keywords,
    split_sentences as split_sentences,
    without_sentences as without_sentences,
)
from .prompts import (
    DROPPED as DROPPED,
    Assembled as Assembled,
    continuations as continuations,
    questions as questions,
)
from .sources import (
    Link as Link,
    PageSet as PageSet,
    SourcePage as SourcePage,
    page_set as page_set,
    read_files as read_files,
    write_articles as write_articles,
)
from .spec import (
    Assemble as Assemble,
    Branch as Branch,
    Concept as Concept,
    DescriptorSearch as DescriptorSearch,
    FindKeywords as FindKeywords,
    Sources as Sources,
    Spec as Spec,
    Wikipedia as Wikipedia,
    Written as Written,
    read_spec as read_spec,
    read_table as read_table,
    schema_json as schema_json,
)
from .stages import Builder as Builder, LocalHosts as LocalHosts
from .web import (
    Manners as Manners,
    MediaWiki as MediaWiki,
    WebClient as WebClient,
    collect_pages as collect_pages,
    read_urls as read_urls,
)
