"""The page of the report: its templates and what they need: words, MathML, images; the files written."""
