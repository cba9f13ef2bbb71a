"""`lbnn explore`: a page on which depth, width, temperature and data are moved and every answer follows.

`state` is what the controls say, as an address; `problem` makes data and a posterior of it. `function`,
`scale` and `theories` are the three pictures, each with its numbers and its figures; `style` is what figures
share, `answer` a number with its error. `controls`, `presets` and `words` are what the page offers and says,
`page` the page in one browser, `server` Bokeh's server around it. Needs Bokeh, the extra `explore`. Imports
every folder before it.
"""
