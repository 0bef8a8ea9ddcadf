"""`load_data` of Python and JavaScript, from the host's side of the socket.

Files are written by cells: only those see what the template's root has.
"""

import base64
import gzip
import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_python import IPYTHON, PANDAS, WARM
from wire import Zygote, node_command, node_context

FOLDER = "/tmp/belljar-loading"
SECRET = "nobody-may-read-this"
GUARD = "application/vnd.belljar.guard+json"
FILES = {
    "deals.json": json.dumps([{"id": n, "note": SECRET, "tags": ["a"], "at": f"2026-03-{n + 1:02d}"} for n in range(10)]),
    "wrapped.json": json.dumps({"data": {"rows": [{"id": 1}, {"id": 2}]}}),
    "settings.json": json.dumps({"currency": SECRET, "limit": 3}),
    "emails.jsonl": "".join(json.dumps({"deal_id": n % 4, "body": {"text": SECRET}}) + "\n" for n in range(12)),
    "zips.csv": "\ufeffzip,count,ok\n" + "".join(f"{n:05d},{n},{n % 2 == 0}\n" for n in range(6)) + '"00,""x\ny",7,True\n',
    "broken.json": '[{"id": 1}, ',
}


# Files that are not UTF-8 with a header, and how the manifest says to read them.
BARE = "1;Köln;12,5\n2;Zürich;1.234,0\n"
BARE_OPTIONS = {"delimiter": ";", "header": False, "columns": ["id", "city", "price"], "text": [], "decimal_commas": ["price"]}
FORMS = {
    "latin": (BARE.encode("latin-1"), {"encoding": "latin-1"}),
    "windows": (BARE.replace("Zürich", "€").encode("cp1252"), {"encoding": "cp1252"}),
    "utf16": (BARE.encode("utf-16"), {"encoding": "utf-16"}),
    "big": (BARE.encode("utf-16-be"), {"encoding": "utf-16-be"}),
    "packed": (gzip.compress(BARE.encode("latin-1")), {"encoding": "latin-1", "compression": "gzip"}),
    "titled": (b" id ;x;x\n" + BARE.encode(), {"header": True}),
    "broken": (BARE.encode() + b"3;K\xf6ln;1\n", {"encoding_errors": "replace"}),
}
FORMS_MANIFEST = json.dumps({"version": 1, "datasets": [
    {"name": f"{name}.csv", "variable": name, "path": f"{name}.csv", "format": "csv", "strategy": "whole", "options": {**BARE_OPTIONS, **options}}
    for name, (_, options) in FORMS.items()
]})
FORMS_BASE64 = {f"{name}.csv": base64.b64encode(content).decode() for name, (content, _) in FORMS.items()}


def entry(name, strategy="whole", **fields):
    variable, _, form = name.partition(".")
    return {"name": name, "variable": variable, "path": name, "format": form, "bytes": len(FILES.get(name, "")),
            "rows": None, "strategy": strategy, "sentence": "", **fields}


def manifest(*entries, **fields):
    return json.dumps({"version": 1, "budget": 1000, "datasets": entries, **fields})


ALL = manifest(
    entry("deals.json", options={"dates": {"at": "iso"}}), entry("wrapped.json", options={"records": ["data", "rows"]}),
    entry("settings.json"), entry("emails.jsonl", "lazy", memory=500, rows=12),
    entry("zips.csv", options={"text": ["zip"]}), entry("broken.json"), entry("gone.csv"),
)


class LoadingTest(unittest.TestCase):
    def ok(self, context, code):
        outcome = context.run(code)
        self.assertTrue(outcome.done["ok"], outcome.events)
        return outcome


@unittest.skipUnless(IPYTHON and PANDAS, "the Python under test has no IPython or no pandas")
class Python(LoadingTest):
    @classmethod
    def setUpClass(cls):
        cls.zygote = Zygote(WARM)
        assert cls.zygote.ready["ev"] == "ready", cls.zygote.ready

    @classmethod
    def tearDownClass(cls):
        last = cls.zygote.fork()
        last.run(f"import shutil\nshutil.rmtree({FOLDER!r}, ignore_errors=True)")
        last.close()
        cls.zygote.close()

    def context(self, manifest=ALL, **files):
        folder = f"{FOLDER}/{self.id().rpartition('.')[2]}"
        context = self.zygote.fork()
        self.addCleanup(context.close)
        contents = {**FILES, **files, **({"datasets.json": manifest} if manifest else {})}
        packed = base64.b64encode(json.dumps(contents).encode()).decode()
        self.ok(context, (
            f"import base64, json, os, shutil\nshutil.rmtree({folder!r}, ignore_errors=True)\nos.makedirs({folder!r})\n"
            f"for name, text in json.loads(base64.b64decode({packed!r})).items():\n"
            f"    with open({folder!r} + '/' + name, 'w', encoding='utf-8', newline='') as file:\n        file.write(text)"
        ))
        context.ask("wake", "awake", copied=False, env={"BELLJAR_DATA": folder}, unset=[])
        return context

    def test_without_a_manifest_there_is_no_name(self):
        context = self.context(manifest=None)
        self.assertEqual(context.run("load_data").error["name"], "NameError")
        self.assertIn("no datasets here", context.run("from belljar import load_data\nload_data()").error["value"])

    def test_every_dataset_has_its_variable_and_only_shapes_are_shown(self):
        context = self.context()
        outcome = self.ok(context, "load_data()")
        lines = dict(line.split(maxsplit=1) for line in outcome.text().splitlines())
        self.assertEqual(list(lines), ["deals", "wrapped", "settings", "emails", "zips", "broken", "gone"])
        self.assertIn("DataFrame, 10 rows × 4 columns", lines["deals"])
        self.assertIn("DataFrame, 2 rows × 1 column", lines["wrapped"])
        self.assertIn("dict, 2 keys", lines["settings"])
        self.assertIn("loaded when first used, 12 rows", lines["emails"])
        self.assertNotIn(SECRET, str(outcome.events))
        self.assertIsNone(outcome.result)
        self.assertEqual(self.ok(context, "type(deals).__name__, type(settings).__name__, settings['limit']").plain, "('DataFrame', 'dict', 3)")
        self.assertEqual(self.ok(context, "str(deals['at'].dt.day.max()), deals['tags'][0]").plain, "('10', ['a'])")
        self.assertEqual(self.ok(context, "zips['zip'].tolist()[-2:], int(zips['count'].sum()), bool(zips['ok'].iloc[0])").plain,
                         "(['00005', '00,\"x\\ny'], 22, True)")

    def test_what_cannot_be_loaded_says_how_to_go_on(self):
        text = self.ok(self.context(), "load_data()").text()
        self.assertRegex(text, r"broken +not loaded: JSONDecodeError: .*; open\('.*/broken\.json'\)")
        self.assertRegex(text, r"gone +not loaded: there is no file .*/gone\.csv")

    def test_calling_again_keeps_what_is_there_unless_told_otherwise(self):
        context = self.context()
        self.ok(context, "load_data()\ndeals = deals.head(3)")
        self.assertRegex(self.ok(context, "load_data()").text(), r"deals +DataFrame, 3 rows × 4 columns, loaded before")
        self.assertEqual(self.ok(context, "load_data('deals', reload=True)\nlen(deals)").plain, "10")
        self.ok(context, "del deals")
        self.assertEqual(self.ok(context, "load_data('deals')\nlen(deals)").plain, "10")
        self.assertIn("no such dataset", self.ok(context, "load_data('dael')").text())

    def test_a_lazy_dataset_is_loaded_by_the_first_cell_that_names_it(self):
        context = self.context()
        self.ok(context, "load_data()")
        self.assertIn("first used", self.ok(context, "globals()['emails']").plain)
        outcome = self.ok(context, "import pandas as pd\nlen(pd.merge(emails, wrapped, left_on='deal_id', right_on='id'))")
        self.assertIn("emails  DataFrame, 12 rows × 2 columns", outcome.text())
        self.assertEqual(outcome.plain, "6")
        self.assertEqual(self.ok(context, "load_data('emails')").text().split(",")[-1].strip(), "loaded before")

    def test_a_lazy_dataset_is_loaded_at_once_where_the_same_cell_names_it(self):
        self.assertEqual(self.ok(self.context(), "load_data()\ntype(emails).__name__").plain, "'DataFrame'")

    def test_a_lazy_dataset_can_be_reached_without_its_name(self):
        context = self.context()
        self.ok(context, "load_data()")
        self.assertEqual(self.ok(context, "there = globals()['em' + 'ails']\nthere.shape, len(there), len(there['body'])").plain, "((12, 2), 12, 12)")

    def test_what_is_too_large_is_read_by_parts(self):
        context = self.context(manifest(entry("emails.jsonl", "converted", memory=5000, rows=12), entry("zips.csv", "lazy", memory=5000)))
        self.assertIn("too large to load whole, 12 rows: emails.chunks()", self.ok(context, "load_data()").text())
        self.assertEqual(self.ok(context, "[len(part) for part in emails.chunks(rows=5)]").plain, "[5, 5, 2]")
        self.assertEqual(self.ok(context, "list(emails.columns_only(['deal_id']).columns), len(zips.columns_only(['count']))").plain, "(['deal_id'], 7)")
        self.assertNotIn(SECRET, self.ok(context, "emails").plain)

    def test_parquet(self):
        context = self.context(manifest(entry("table.parquet"), entry("large.parquet", "converted", memory=5000)))
        made = context.run("import pandas as pd\nfor name in ('table', 'large'):\n    pd.DataFrame({'a': range(9), 'b': 'x'}).to_parquet(os.environ['BELLJAR_DATA'] + f'/{name}.parquet')")
        if made.error:
            self.skipTest(made.error["value"])
        self.ok(context, "load_data()")
        self.assertEqual(self.ok(context, "table.shape, [len(part) for part in large.chunks(4)], large.columns_only(['a']).shape").plain,
                         "((9, 2), [4, 4, 1], (9, 1))")

    def test_text_is_read_as_the_manifest_says_it_is_written(self):
        context = self.context(FORMS_MANIFEST)
        self.ok(context, (
            f"import base64\nfor name, content in {FORMS_BASE64!r}.items():\n"
            "    open(os.environ['BELLJAR_DATA'] + '/' + name, 'wb').write(base64.b64decode(content))"
        ))
        text = self.ok(context, "load_data()").text()
        self.assertNotIn("not loaded", text)
        for name in FORMS:
            rows = 3 if name == "broken" else 2
            self.assertRegex(text, rf"{name} +DataFrame, {rows} rows × 3 columns")
            code = f"list({name}.columns), {name}['city'].tolist()[0], float({name}['price'][1]), {name}.shape"
            self.assertEqual(self.ok(context, code).plain, f"(['id', 'city', 'price'], 'Köln', 1234.0, ({rows}, 3))")
        # By parts, too.
        large = json.loads(FORMS_MANIFEST)
        for given in large["datasets"]:
            given.update(strategy="lazy", memory=5000, variable="large_" + given["variable"])
        large["budget"] = 1000
        self.ok(context, f"import json\njson.dump({large!r}, open(os.environ['BELLJAR_DATA'] + '/datasets.json', 'w'))\nload_data()")
        self.assertEqual(self.ok(context, "large_packed.columns_only(['price'])['price'].tolist()").plain, "[12.5, 1234.0]")
        self.assertEqual(self.ok(context, "[part.shape for part in large_latin.chunks(1)]").plain, "[(1, 3), (1, 3)]")
        self.assertEqual(self.ok(context, "windows['city'][1], broken['city'][2]").plain, "('€', 'K\ufffdln')")

    def test_another_version_is_refused(self):
        error = self.context(manifest(version=2)).run("load_data()").error
        self.assertIn("version 2; this runtime reads version 1", error["value"])
        self.assertFalse(any("<belljar" in line for line in error["traceback"]), error["traceback"])

    def test_the_name_can_be_imported_and_used_from_another_module(self):
        self.assertIn("deals", self.ok(self.context(), "from belljar import load_data as load\nload('deals')\nlen(deals)").text())

    def test_a_finding_is_told_once_in_a_cell_and_again_in_the_next(self):
        context = self.context()
        code = "for _ in range(3):\n    deals.merge(wrapped.assign(id=wrapped['id'] + 100), on='id')"
        first = self.ok(context, "load_data()\n" + code)
        again = self.ok(context, code)
        for outcome in (first, again):
            self.assertEqual([event["data"][GUARD]["kind"] for event in outcome.all("display")], ["empty-join"])
            self.assertEqual(outcome.text("stderr").count("warning [empty-join]"), 1)
        self.assertEqual(again.all("display")[0]["data"][GUARD]["line"], 2)

    def test_a_refused_join_fails_as_it_would_without_guards(self):
        context = self.context()
        self.ok(context, "load_data()")
        outcome = context.run("deals.merge(zips, left_on='id', right_on='zip')")
        self.assertEqual(outcome.error["name"], "ValueError")
        self.assertFalse(any("<belljar" in line for line in outcome.error["traceback"]), outcome.error["traceback"])
        self.assertEqual([event["data"][GUARD]["kind"] for event in outcome.all("display")], ["key-mismatch"])

    def test_functions_of_pandas_keep_their_names_and_travel(self):
        context = self.context()
        self.ok(context, "load_data()")
        code = ("import inspect, pickle\npickle.loads(pickle.dumps(pd.merge)) is pd.merge, pd.merge.__name__, 'validate' in inspect.signature(pd.DataFrame.merge).parameters, "
                "pickle.loads(pickle.dumps(deals.head(1))).equals(deals.head(1))")
        self.assertEqual(self.ok(context, "import pandas as pd\n" + code).plain, "(True, 'merge', True, True)")

    def test_probes_survive_a_reset_and_stay_out_of_sight(self):
        context = self.context()
        self.ok(context, "load_data()\nimport datetime\ndef age(day):\n    return (datetime.datetime.now() - day).days")
        self.assertEqual(self.ok(context, "[name for name in globals() if 'belljar' in name]").plain, "[]")
        self.ok(context, "keep = age\nimport builtins\nbuiltins.kept = keep\n%reset -f")
        self.assertEqual(self.ok(context, "import datetime\nkept.__globals__['datetime'] = datetime\nkept(datetime.datetime(2020, 1, 1)) > 1000").plain, "True")


@unittest.skipUnless(shutil.which(node_command()[0]), "there is no node")
class JavaScript(LoadingTest):
    @classmethod
    def setUpClass(cls):
        cls.context = node_context()

    @classmethod
    def tearDownClass(cls):
        cls.context.run(f"require('fs').rmSync({FOLDER!r}, {{ recursive: true, force: true }})")
        cls.context.close()

    def place(self, manifest):
        folder = f"{FOLDER}/javascript-{self.id().rpartition('.')[2]}"
        contents = json.dumps({**FILES, "datasets.json": manifest})
        self.ok(self.context, (
            f"require('fs').mkdirSync({folder!r}, {{ recursive: true }});\n"
            f"for (const [name, text] of Object.entries({contents})) require('fs').writeFileSync({folder!r} + '/' + name, text); 0"
        ))
        self.context.ask("wake", "awake", env={"BELLJAR_DATA": folder}, unset=[])

    def test_every_dataset_has_its_variable_and_only_shapes_are_shown(self):
        self.place(ALL)
        outcome = self.ok(self.context, "load_data()")
        lines = dict(line.split(maxsplit=1) for line in outcome.text().splitlines())
        self.assertEqual(list(lines), ["deals", "wrapped", "settings", "emails", "zips", "broken", "gone"])
        self.assertIn("array, 10 records × 4 fields", lines["deals"])
        self.assertIn("object, 2 keys", lines["settings"])
        self.assertIn("loaded when first used, 12 rows", lines["emails"])
        self.assertRegex(lines["broken"], r"not loaded: SyntaxError: .*broken\.json")
        self.assertRegex(lines["gone"], r"there is no file .*/gone\.csv")
        self.assertNotIn(SECRET, str(outcome.events))
        code = "[deals.length, wrapped[1].id, zips.at(-1).zip, zips[5], emails.length, emails[5].deal_id]"
        self.assertEqual(self.ok(self.context, code).result["data"]["application/json"],
                         [10, 2, '00,"x\ny', {"zip": "00005", "count": 5, "ok": False}, 12, 1])
        self.ok(self.context, "deals = deals.slice(0, 3)")
        self.assertRegex(self.ok(self.context, "load_data()").text(), r"deals +array, 3 records × 4 fields, loaded before")
        self.assertEqual(self.ok(self.context, "load_data('deals', { reload: true }); deals.length").plain, "10")
        self.assertEqual(self.ok(self.context, "const deals = [1]; deals.length").plain, "1")

    def test_what_is_too_large_is_read_by_records(self):
        self.place(manifest({**entry("emails.jsonl", "lazy", memory=5000), "variable": "mails"}, {**entry("zips.csv", "lazy", memory=5000), "variable": "codes"},
                            {**entry("deals.json"), "format": "parquet", "variable": "table"}))
        text = self.ok(self.context, "load_data()").text()
        self.assertIn("too large to load whole: for (const record of mails)", text)
        self.assertIn("load deals.json in Python", text)
        self.assertEqual(self.ok(self.context, "[[...mails].length, [...codes].length]").result["data"]["application/json"], [12, 7])

    def test_text_is_read_as_the_manifest_says_it_is_written(self):
        self.place(FORMS_MANIFEST)
        self.ok(self.context, (
            f"for (const [name, content] of Object.entries({json.dumps(FORMS_BASE64)}))"
            " require('fs').writeFileSync(process.env.BELLJAR_DATA + '/' + name, Buffer.from(content, 'base64')); 0"
        ))
        text = self.ok(self.context, "load_data()").text()
        self.assertNotIn("not loaded", text)
        for name in FORMS:
            rows = 3 if name == "broken" else 2
            found = self.ok(self.context, f"[Object.keys({name}[0]), {name}[0].city, {name}[1].price, {name}.length]")
            self.assertEqual(found.result["data"]["application/json"], [["id", "city", "price"], "Köln", 1234, rows], name)
        self.assertEqual(self.ok(self.context, "windows[1].city + broken[2].city").plain, "'€K\ufffdln'")

    def test_another_version_is_refused(self):
        self.place(manifest(version=2))
        self.assertIn("version 2", self.context.run("load_data()").error["value"])


if __name__ == "__main__":
    unittest.main()
