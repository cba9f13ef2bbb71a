"""The page of the report: templates and what they need: words, formulas as MathML, figures as images, files."""
