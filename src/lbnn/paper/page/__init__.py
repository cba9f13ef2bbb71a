"""The page of the report: claims as cards, formulas as MathML, figures as images, files."""
