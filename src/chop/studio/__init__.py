"""The studio: a local page on which a question is asked, answered and looked at."""
