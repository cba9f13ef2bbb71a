"""`lbnn explore`: a page on which depth, width, temperature and data are moved and every answer follows.

`state` is what the controls say, `numbers` what follows from it, `code` the lines of Python that say the
same, `views` the figures, `session` the answers to one browser, `page` what the browser is sent, `server` the
whole. `state`, `presets`, `numbers` and `code` need no browser and no server; the rest needs Bokeh, the extra
`explore`. `controls` are the sliders, `words` the texts, `table` a user's data, `wire` the messages between
page and server. Imports every folder before it.
"""
