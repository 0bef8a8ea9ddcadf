"""Rich forms of values, figures of matplotlib and pictures of Pillow.

Nothing here imports pandas, matplotlib or Pillow: they are only looked at once
user code has loaded them.
"""

import functools
import io
import os
import sys

from IPython.core.formatters import DisplayFormatter
from traitlets import Dict, Set, Unicode
from traitlets.config import SingletonConfigurable

from . import charts
from .values import Unfit, plain, table

CHART = "e2b/chart"
DATA = "e2b/data"
# Only text, for the exact types: asking ten formatters takes longer than
# most cells.
SIMPLE = {int, float, complex, bool, str, bytes, list, dict, tuple, set, frozenset, type(None)}


class Formatter(DisplayFormatter):
    def format(self, value, include=None, exclude=None):
        kind = type(value)
        if kind in SIMPLE and not include and not exclude and not self._customised(kind):
            data, metadata = {"text/plain": self.formatters["text/plain"](value)}, {}
        else:
            data, metadata = super().format(value, include=include, exclude=exclude)
        if data and not include:
            self._enrich(value, data)
        return data, metadata

    def _customised(self, kind):
        return any(kind in f.type_printers for f in self.formatters.values() if f.format_type != "text/plain")

    def _enrich(self, value, data):
        try:
            if type(value) in (list, dict):
                data.setdefault("application/json", plain(value, strict=True))
            elif instance_of(value, "pandas", "DataFrame"):
                data.setdefault(DATA, table(value))
            elif instance_of(value, "matplotlib.figure", "Figure"):
                self.parent.figures.shown.append(value)
                chart = charts.extract(value)
                if chart is not None:
                    data.setdefault(CHART, chart)
        except (Unfit, RecursionError):
            pass
        except Exception as error:
            # An extra form must not cost the user the value itself.
            if not isinstance(error, (ValueError, TypeError, AttributeError, KeyError, IndexError)):
                raise


def instance_of(value, module, name):
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(value, kind)


class InlineBackend(SingletonConfigurable):
    """So that `%config InlineBackend.figure_format = "retina"` works."""

    figure_format = Unicode("png").tag(config=True)
    figure_formats = Set({"png"}).tag(config=True)
    print_figure_kwargs = Dict({"bbox_inches": "tight"}).tag(config=True)
    rc = Dict().tag(config=True)

    @property
    def formats(self):
        return self.figure_formats if self.figure_format == "png" else {self.figure_format}


class Figures:
    """Shows every open figure at the end of its cell, or at `plt.show()`."""

    def __init__(self, shell):
        self.shell = shell
        # Figures that the running cell has displayed already.
        self.shown = []
        formatters = shell.display_formatter.formatters
        for mime, kinds in (("image/png", ("png", "retina", "png2x")), ("image/svg+xml", ("svg",)),
                            ("image/jpeg", ("jpeg", "jpg")), ("application/pdf", ("pdf",))):
            formatters[mime].for_type_by_name("matplotlib.figure", "Figure", renderer(kinds))
        once_loaded("matplotlib.pyplot", self.adopt)
        once_loaded("PIL.Image", self.adopt_pictures)

    def forget(self):
        self.shown.clear()

    def adopt(self, pyplot):
        """Without a screen `show` would only warn."""
        from matplotlib.axes import Axes
        from matplotlib.figure import Figure

        figures = self

        def show(*_arguments, **_options):
            figures.flush()

        def show_figure(figure, warn=True):
            figures.display(figure)

        pyplot.show = show
        Figure.show = show_figure
        Axes.bxp = charts.remember_boxes(Axes.bxp)

    def adopt_pictures(self, pillow):
        """Without a screen there is no viewer; and a picture that is saved under
        a name is shown, too. Those that matplotlib saves are its figures."""
        figures, save = self, pillow.Image.save

        def show(picture, title=None, **_options):
            figures.display(picture)

        @functools.wraps(save)
        def save_and_show(picture, fp, *arguments, **options):
            save(picture, fp, *arguments, **options)
            caller = sys._getframe(1).f_globals.get("__name__") or ""
            if figures.shell.channel.running and isinstance(fp, (str, os.PathLike)) and not caller.startswith("matplotlib."):
                figures.display(picture)

        pillow.Image.show = show
        pillow.Image.save = save_and_show

    def display(self, figure):
        data, metadata = self.shell.display_formatter.format(figure)
        if data:
            self.shell.display_pub.publish(data, metadata)

    def flush(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if pyplot is None or helpers is None or not helpers.Gcf.figs:
            return
        try:
            for manager in helpers.Gcf.get_all_fig_managers():
                figure = manager.canvas.figure
                if not any(figure is other for other in self.shown):
                    self.display(figure)
        finally:
            pyplot.close("all")


def once_loaded(name, adopt):
    """Calls `adopt` with the module when it is loaded, or at once if it is."""
    if name in sys.modules:
        adopt(sys.modules[name])
    else:
        sys.meta_path.insert(0, Awaited(name, adopt))


class Awaited:
    """An import hook that lets one module load, then hands it over."""

    def __init__(self, name, adopt):
        self.name, self.adopt = name, adopt

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None:
            load = spec.loader.exec_module

            def load_and_adopt(module):
                load(module)
                self.adopt(module)

            spec.loader.exec_module = load_and_adopt
        return spec


def renderer(kinds):
    def render(figure):
        backend = InlineBackend.instance()
        asked = backend.formats
        chosen = next((kind for kind in kinds if kind in asked), None)
        if chosen is None or not (figure.axes or figure.lines or figure.texts or figure.images):
            return None
        options = dict(backend.print_figure_kwargs)
        if chosen in ("retina", "png2x"):
            chosen = "png"
            options["dpi"] = figure.dpi * 2
        options.setdefault("dpi", figure.dpi)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=chosen, **options)
        return buffer.getvalue().decode() if chosen == "svg" else buffer.getvalue()

    return render
