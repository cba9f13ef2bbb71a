"""From a state to the numbers of each view: pure functions, without a browser.

Each view has a generator `numbers(state, table)` that gives its numbers as they get better: first what is
quick, then the rest; those of several outputs also have `rough(state, table)`, a picture at once. Imports the
library and `state`; draws nothing. `views` has them by the name of the view.
"""
