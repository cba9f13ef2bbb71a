"""What every folder uses: array types, checks, warnings, blocks, files, progress, HTML, colours.

`types` and `arrays` (of any library), `check` (arguments of public functions), `errors`, `warn`,
`notices` (what an answer has to say), `blocks`, `threads`, `extras` and `checkout` (what is
installed), `files`, `progress`, `html`,
`mathml`, `colours`; numerics that depend on nothing: `log_sums`, `log_integrals`, `small_matrices`,
`quasi_random`, `gauss_rule`, `chebyshev_panels`. Imports nothing of the project.
"""
