"""Offers `load_data` where the host has put datasets, and nothing elsewhere.

Imported by every context, so it imports nothing itself. Datasets may be
mounted after a zygote has been forked: the look for a manifest is repeated
before each cell, one system call.
"""

import os
import sys

FOLDER = "BELLJAR_DATA"
DEFAULT = "/data"
MANIFEST = "datasets.json"
# Named by a cell, this is what brings the rest in before the cell is compiled.
NAME = "load_data"


def folder():
    return os.environ.get(FOLDER) or DEFAULT


def manifest():
    return f"{folder()}/{MANIFEST}"


class Offer:
    """Looks at each cell of one shell before it runs."""

    def __init__(self, shell):
        self.shell = shell
        # What watches the cells, from the first that names `load_data` on.
        self.watch = None

    def before(self, code):
        if self.watch is not None:
            self.watch.begin()
        elif not os.access(manifest(), os.F_OK):
            return
        elif NAME in code:
            from .watch import Watch

            self.watch = Watch(self.shell)
        self.shell.user_ns.setdefault(NAME, load_data)
        self.shell.user_ns_hidden.setdefault(NAME, load_data)


def load_data(*names, reload=False):
    """Loads the datasets of this run into variables and prints their shapes.

    Without names it loads all of them. What is loaded already stays as it is,
    unless `reload` is true. Large ones are loaded when a cell first uses them.
    """
    from . import datasets

    datasets.load(sys._getframe(1).f_globals, names, reload)


class Public:
    """Makes `from belljar import load_data` work. It comes last among the
    finders, so that an installed package of that name goes first."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "belljar":
            return None
        from importlib.util import spec_from_loader

        return spec_from_loader(name, Public)

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        module.__doc__ = "What Belljar gives to the code in its contexts."
        module.load_data = load_data


def publish():
    sys.meta_path.append(Public)
