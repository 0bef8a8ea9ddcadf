"""Finds the expressions of a cell that today's clock can reach, and marks them.

A probe is a call that answers the value it is given: `now - day` becomes
`seen(7, 0, now) - seen(7, 1, day)`. Operators, calls and their order stay what
they were and run where they ran. Probes only stand where a clock's value may
arrive, judged by names; whether one does is judged by values, in `clock`. So a
cell that reads no clock is compiled as it is.
"""

import ast
import re

NAME = "__belljar_seen__"
# Sites have kinds, and slots: an operand's place, or these.
CALL, SUM, COMPARE, PAIR, PART, SQL = "call", "sum", "compare", "pair", "part", "sql"
CALLEE, RESULT = -1, -2

CLOCKS = {"now", "today", "utcnow", "time", "time_ns", "localtime", "gmtime"}
# These read the clock if they are given the word.
BY_WORD = {"Timestamp", "to_datetime", "datetime64"}
WORDS = ("now", "today")
# What makes another form of its first argument.
CONVERTERS = BY_WORD | {
    "str", "int", "float", "round", "date", "datetime", "fromisoformat", "fromtimestamp", "utcfromtimestamp",
    "combine", "strptime", "strftime", "fromordinal", "mktime", "Period", "repr",
}
# What relates its first two arguments as `-` would.
PAIRS = {"relativedelta", "busday_count", "date_range", "bdate_range", "period_range"}
PARTS = {"year", "month", "quarter", "week", "day", "day_of_year", "dayofyear"}
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
QUERIES = {"sql", "query", "execute"}
MOMENT = r"(?:current_date|current_timestamp|now\s*\(\s*\)|today\s*\(\s*\)|get_current_timestamp\s*\(\s*\))"
SQL_CLOCK = re.compile(rf"[<>=\-]\s*{MOMENT}|{MOMENT}(?:\s*::\s*\w+)?\s*[<>=\-]|date_?diff\s*\([^)]*{MOMENT}", re.IGNORECASE)
# Functions travel to other processes with these, where nobody knows a probe.
ELSEWHERE = {"multiprocessing", "joblib", "cloudpickle", "dill", "dask", "ray", "numba", "ProcessPoolExecutor"}
# Files have clocks of their own.
OF_FILES = {"getmtime", "getctime", "getatime", "st_mtime", "st_ctime", "st_atime"}
# A name that was reached may reach others; chains are short.
ROUNDS = 8
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Site:
    """One expression with probes."""

    def __init__(self, kind, line, detail=None):
        self.kind, self.line, self.detail = kind, line, detail
        self.slots = {}
        self.visits = 0


class Reach:
    """Which names may hold something that came from the clock, over all cells."""

    def __init__(self):
        self.names = set()
        # Attributes and keys: `self.today`, `row["today"]`.
        self.parts = set()
        # Names that stand for a day that was written down, not for data.
        self.literals = set()

    def instrument(self, tree, sites):
        """Puts probes into the tree, and adds their sites."""
        if self.concerns(tree):
            hot = self.spread(tree)
            try:
                Prober(hot, self.literals, sites).visit(tree)
            finally:
                # Each probe is right by itself, so a tree with some of them is.
                ast.fix_missing_locations(tree)

    def concerns(self, tree):
        found = False
        for node in ast.walk(tree):
            name = called(node) if isinstance(node, ast.Call) else identifier(node)
            if name in ELSEWHERE or isinstance(node, (ast.Import, ast.ImportFrom)) and ELSEWHERE & imported(node):
                return False
            found = found or self.is_source(node) or name in self.names or name in self.parts
        return found

    def is_source(self, node):
        if not isinstance(node, ast.Call):
            return False
        name, first = called(node), node.args[0] if node.args else None
        if name in CLOCKS:
            return True
        if name in BY_WORD:
            return isinstance(first, ast.Constant) and first.value in WORDS
        if name == "strftime":
            return len(node.args) == 1 and identifier(getattr(node.func, "value", None)) == "time"
        return name in QUERIES and is_clock_sql(first)

    def is_hot(self, node):
        """Whether the node by itself is a reading or bears a marked name."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.parts
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return node.slice.value in self.parts
        return self.is_source(node)

    def heat(self, node, hot):
        """Collects the nodes in or below which the clock may be."""
        warm = self.is_hot(node)
        for child in ast.iter_child_nodes(node):
            warm = self.heat(child, hot) or warm
        if warm:
            hot.add(id(node))
        return warm

    def spread(self, tree):
        """Follows assignments, returns and arguments until nothing new is found;
        answers the nodes, by identity, that the clock may reach."""
        nodes = list(ast.walk(tree))
        functions = {node.name: node for node in nodes if isinstance(node, FUNCTIONS)}
        answers = {
            name: [inner.value for inner in ast.walk(node) if isinstance(inner, (ast.Return, ast.Yield))]
            for name, node in functions.items()
        }
        for _ in range(ROUNDS):
            before, hot = len(self.names) + len(self.parts), set()
            self.heat(tree, hot)
            for node in nodes:
                self.follow(node, hot, functions)
            self.names.update(name for name, values in answers.items() if any(id(value) in hot for value in values))
            if len(self.names) + len(self.parts) == before:
                break
        self.note_literals(nodes)
        return hot

    def follow(self, node, hot, functions):
        if isinstance(node, ast.Assign) and id(node.value) in hot:
            for target in node.targets:
                self.mark(target)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and id(node.value) in hot:
            self.mark(node.target)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) and id(node.iter) in hot:
            self.mark(node.target)
        elif isinstance(node, (*FUNCTIONS, ast.Lambda)):
            places = node.args.posonlyargs + node.args.args
            defaults = [*zip(places[::-1], node.args.defaults[::-1]), *zip(node.args.kwonlyargs, node.args.kw_defaults)]
            self.names.update(place.arg for place, default in defaults if id(default) in hot)
        elif isinstance(node, ast.Call) and id(node) in hot:
            self.follow_call(node, hot, functions)

    def follow_call(self, node, hot, functions):
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not any(id(argument) in hot for argument in arguments):
            return
        function = functions.get(called(node))
        if function is not None:
            self.names.update(place.arg for place, argument in zip(function.args.args, node.args) if id(argument) in hot)
            self.names.update(keyword.arg for keyword in node.keywords if keyword.arg and id(keyword.value) in hot)
        for argument in arguments:
            # Handed on together, as in `column.apply(age, args=(today,))`.
            function = functions.get(identifier(argument))
            if function is not None:
                self.names.update(place.arg for place in function.args.args[1:])

    def mark(self, target):
        if isinstance(target, ast.Name):
            self.names.add(target.id)
        elif isinstance(target, ast.Attribute):
            self.parts.add(target.attr)
        elif isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                self.parts.add(target.slice.value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self.mark(element)

    def note_literals(self, nodes):
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                if is_literal(node.value, self.literals):
                    self.literals.add(node.targets[0].id)
                else:
                    self.literals.discard(node.targets[0].id)


class Prober(ast.NodeTransformer):
    def __init__(self, hot, literals, sites):
        self.hot, self.literals, self.sites = hot, literals, sites

    def is_hot(self, node):
        return id(node) in self.hot

    def site(self, kind, node, detail=None):
        self.sites.append(Site(kind, getattr(node, "lineno", None), detail))
        return len(self.sites) - 1

    def probe(self, site, slot, value):
        arguments = [ast.Constant(site), ast.Constant(slot), value]
        return ast.copy_location(ast.Call(ast.Name(NAME, ast.Load()), arguments, []), value)

    def visit(self, node):
        return super().visit(node) if self.is_hot(node) else node

    def visit_Call(self, node):
        name = called(node)
        if name in QUERIES and node.args and is_clock_sql(node.args[0]):
            site = self.site(SQL, node)
            node.args[0] = self.probe(site, 0, node.args[0])
            return self.generic_visit_rest(node)
        if name in PAIRS:
            return self.visit_pair(node, name)
        if name in QUERIES and node.args and isinstance(node.args[0], ast.JoinedStr):
            site = self.site(SQL, node)
            for value in node.args[0].values:
                if isinstance(value, ast.FormattedValue):
                    value.value = self.probe(site, 1, self.visit(value.value))
            return self.generic_visit_rest(node)
        receiver = isinstance(node.func, ast.Attribute) and self.is_hot(node.func.value)
        first = bool(node.args) and self.is_hot(node.args[0])
        if not (name in CLOCKS or name in BY_WORD or name == "strftime" or receiver or (first and name in CONVERTERS)):
            return self.generic_visit(node)
        self.generic_visit(node)
        site = self.site(CALL, node, name)
        node.func = self.probe(site, CALLEE, node.func)
        if node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = self.probe(site, 0, node.args[0])
        return self.probe(site, RESULT, node)

    def generic_visit_rest(self, node):
        node.func = self.visit(node.func)
        node.args[1:] = [self.visit(argument) for argument in node.args[1:]]
        return node

    def visit_pair(self, node, name):
        self.generic_visit(node)
        site = self.site(PAIR, node, name)
        if len(node.args) >= 2:
            node.args[:2] = [self.probe(site, slot, argument) for slot, argument in enumerate(node.args[:2])]
        for keyword in node.keywords:
            if keyword.arg in ("start", "end"):
                keyword.value = self.probe(site, int(keyword.arg == "end"), keyword.value)
        return node

    def visit_BinOp(self, node):
        is_literal_pair = self.is_written(node.left) or self.is_written(node.right)
        self.generic_visit(node)
        if not isinstance(node.op, (ast.Add, ast.Sub)):
            return node
        sign = "+" if isinstance(node.op, ast.Add) else "-"
        site = self.site(SUM, node, (sign, is_literal_pair))
        node.left, node.right = self.probe(site, 0, node.left), self.probe(site, 1, node.right)
        return self.probe(site, RESULT, node)

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        written = any(self.is_written(side) for side in sides)
        part = self.part(sides)
        self.generic_visit(node)
        if written or not all(isinstance(operator, ORDER) for operator in node.ops):
            return node
        site = self.site(PART if part else COMPARE, node, part)
        node.left = self.probe(site, 0, node.left)
        node.comparators = [self.probe(site, slot, side) for slot, side in enumerate(node.comparators, 1)]
        return node

    def part(self, sides):
        """`day.dt.year == now.year`: which part of a date, and whose side is the clock's."""
        if len(sides) != 2 or self.is_hot(sides[0]) == self.is_hot(sides[1]):
            return None
        clock, data = sorted((0, 1), key=lambda place: not self.is_hot(sides[place]))
        named = {word for inner in ast.walk(sides[data]) for word in named_parts(inner)}
        return (sorted(named)[0], clock) if named else None

    def visit_JoinedStr(self, node):
        values = [value for value in node.values if isinstance(value, ast.FormattedValue)]
        for value in values:
            # What stands after the colon is part of the string itself.
            value.value = self.visit(value.value)
        if len(node.values) != 1 or not values:
            return node
        site = self.site(CALL, node, "format")
        values[0].value = self.probe(site, 0, values[0].value)
        return self.probe(site, RESULT, node)

    def visit_Subscript(self, node):
        sliced = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load) and self.is_hot(node.value)
        self.generic_visit(node)
        if not sliced:
            return node
        site = self.site(CALL, node, "slice")
        node.value = self.probe(site, 0, node.value)
        return self.probe(site, RESULT, node)

    def visit_match_case(self, node):
        # A pattern is no expression.
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def is_written(self, node):
        return is_literal(node, self.literals) or any(identifier(inner) in OF_FILES for inner in ast.walk(node))


def identifier(node):
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return None


def called(node):
    return identifier(node.func)


def imported(node):
    names = {part for alias in node.names for part in alias.name.split(".")}
    return names | set((getattr(node, "module", None) or "").split("."))


def named_parts(node):
    if isinstance(node, ast.Attribute) and node.attr in PARTS:
        return {node.attr}
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PARTS:
        return {node.value}
    return set()


def is_literal(node, literals):
    """Whether a day is written down here, as in `date(2024, 1, 31)`."""
    if isinstance(node, ast.Call):
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        return called(node) in CONVERTERS and bool(parts) and all(isinstance(part, ast.Constant) and part.value not in WORDS for part in parts)
    return isinstance(node, ast.Constant) or isinstance(node, ast.Name) and node.id in literals


def is_clock_sql(node):
    return any(
        isinstance(inner, ast.Constant) and isinstance(inner.value, str) and SQL_CLOCK.search(inner.value)
        for inner in ([node] if isinstance(node, ast.Constant) else ast.walk(node) if node is not None else ())
    )
