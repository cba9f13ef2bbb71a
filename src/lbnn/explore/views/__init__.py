"""Figures made of the numbers, one file for each view.

A view makes its figures once and then only moves their data. Imports `numbers` and Bokeh; computes nothing.
"""
