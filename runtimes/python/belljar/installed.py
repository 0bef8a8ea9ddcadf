"""Finds packages that are installed while the interpreter runs.

pip installs for the user below `~/.local`. Python looks there only if the directory
exists when it starts, and warm interpreters start before their sandbox and its home
exist. So the directory is looked for when the sandbox is known, after each command
of a cell, and whenever an import finds nothing.
"""

import importlib.machinery
import os
import site
import sys

# The directory and its time of change, as last seen.
_seen = None
_loaded = set()


def directory():
    """The user's site directory, or `None` where Python would use none."""
    if sys.prefix != sys.base_prefix or os.environ.get("PYTHONNOUSERSITE"):
        return None
    base = os.environ.get("PYTHONUSERBASE")
    if not base:
        home = os.environ.get("HOME")
        if not home:
            return None
        base = os.path.join(home, ".local")
    version = sys.version_info
    return os.path.join(base, "lib", f"python{version.major}.{version.minor}", "site-packages")


def look():
    """Adds the directory to the search path. Says whether it has changed."""
    global _seen
    path = directory()
    if path and site.USER_SITE != path:
        site.USER_SITE = path
        site.USER_BASE = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    try:
        now = path and (path, os.stat(path).st_mtime_ns)
    except OSError:
        now = None
    if not now or now == _seen:
        return False
    if _seen is None or _seen[0] != path:
        add(path)
    _seen = now
    sys.path_importer_cache.pop(path, None)
    known = {site.makepath(entry)[1] for entry in sys.path}
    for name in sorted(os.listdir(path)):
        # Editable installs, and packages that extend the path themselves.
        if name.endswith(".pth") and not name.startswith(".") and (path, name) not in _loaded:
            _loaded.add((path, name))
            site.addpackage(path, name, known)
    return True


def add(path):
    """Before the system's packages, as Python does."""
    if path in sys.path:
        return
    system = ("dist-packages", "site-packages")
    places = (at for at, entry in enumerate(sys.path) if os.path.basename(entry) in system)
    sys.path.insert(next(places, len(sys.path)), path)


class Finder:
    """Asked last, for modules that are nowhere."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None and look():
            return importlib.machinery.PathFinder.find_spec(name, None, target)
        return None


def install():
    sys.meta_path.append(Finder)
    look()
