"""Reading the pages that reldp writes: their tags, whether these are balanced, and their texts."""

import re
from html.parser import HTMLParser

VOID = ("meta",)


class Page(HTMLParser):
    """Tags, attributes and texts of a page; tags must be balanced."""

    def __init__(self, text):
        super().__init__()
        self._open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self._open[-1] if self._open else "", data))

    def count(self, tag):
        return self.tags.count(tag)

    def text_of(self, tag):
        return "".join(data for name, data in self.texts if name == tag)


def parsed(text):
    return Page(text)


def table(text, name):
    """Rows of a table of a page, by its identifier, header included."""
    whole = re.search(rf'<table[^>]* id="{name}">(.*?)</table>', text, re.DOTALL).group(1)
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", whole, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
