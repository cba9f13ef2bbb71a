"""Views: fixed functions of the inputs through which observations see a network.

`tasks`, `gates`, `patches` and `paths` of `helpers` make the arrays (p, M, n0) that
`Network.condition_views` takes; `posterior` holds what it returns. Gates, patches and attention stand at
one layer, on top of a deep linear trunk of any widths. Gates in every layer are not of this form. Imports
`posterior` and what stands before it.
"""

from lbnn.views.helpers import gates, patches, paths, tasks

__all__ = ["gates", "patches", "paths", "tasks"]
