"""Finds packages that are installed while the interpreter runs.

pip installs for the user below `~/.local`. Python looks there only if the directory
exists when it starts, and warm interpreters start before their sandbox and its home
exist. So the search path is refreshed when a context wakes in its sandbox, after each
command of a cell, and when an import finds nothing.
"""

import importlib.machinery
import os
import site
import sys

# The directory and its modification time, as last seen.
_seen = None
# `.pth` files that were read.
_read = set()


def directory():
    """The user's site directory for the HOME of now, or `None` if Python would use none."""
    if sys.prefix != sys.base_prefix or os.environ.get("PYTHONNOUSERSITE"):
        return None
    # Both are cached; the cached ones may be of another HOME.
    site.USER_BASE = site.USER_SITE = None
    return site.getusersitepackages()


def refresh():
    """Adds the directory to the search path. Says whether it has changed."""
    global _seen
    path = directory()
    try:
        now = path and (path, os.stat(path).st_mtime_ns)
        if not now or now == _seen:
            return False
        names = sorted(os.listdir(path))
    except OSError:
        # It does not exist yet, or cannot be read.
        return False
    if _seen is None or _seen[0] != path:
        add(path)
    _seen = now
    sys.path_importer_cache.pop(path, None)
    known = {site.makepath(entry)[1] for entry in sys.path}
    for name in names:
        # Editable installs, and packages that extend the search path themselves.
        if name.endswith(".pth") and not name.startswith(".") and (path, name) not in _read:
            _read.add((path, name))
            site.addpackage(path, name, known)
    return True


def add(path):
    """Puts the directory before the system's packages, as Python does at its start."""
    if path in sys.path:
        return
    system = ("dist-packages", "site-packages")
    places = (at for at, entry in enumerate(sys.path) if os.path.basename(entry) in system)
    sys.path.insert(next(places, len(sys.path)), path)


class Finder:
    """The last finder: searches again if packages were installed since."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None and refresh():
            return importlib.machinery.PathFinder.find_spec(name, None, target)
        return None


def install():
    sys.meta_path.append(Finder)
    refresh()
