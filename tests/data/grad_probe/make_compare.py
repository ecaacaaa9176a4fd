# ruff: noqa
# fmt: off
"""usage: make_compare.py DUMP_A DUMP_B OUT   runs the gradient comparison entry point on two dump trees."""
import sys
from msprobe import GradComparator
GradComparator.compare_distributed(*sys.argv[1:4])
