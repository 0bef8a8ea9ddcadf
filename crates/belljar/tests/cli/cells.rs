//! Cells and notebooks, with the options of `belljar run`.

#![allow(clippy::print_stderr, reason = "a check that is left out says so")]

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Place, can_use};

const TEMPLATE: &str = "python-data";

/// A notebook as Jupyter writes it, of these code cells behind a text.
fn notebook(sources: &[&str]) -> String {
    let code = |source: &&str| {
        json!({"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [],
               "source": source.split_inclusive('\n').collect::<Vec<_>>()})
    };
    let mut cells = vec![json!({"cell_type": "markdown", "metadata": {}, "source": ["# Sales"]})];
    cells.extend(sources.iter().map(code));
    let kernel = json!({"display_name": "Python 3", "language": "python", "name": "python3"});
    let document = json!({"cells": cells, "metadata": {"kernelspec": kernel},
                          "nbformat": 4, "nbformat_minor": 4});
    document.to_string()
}

fn read(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&place.read(name)).unwrap()
}

#[test]
fn files_go_in_and_come_out_as_with_run() {
    if !can_use(TEMPLATE) {
        return;
    }
    let place = Place::new();
    place.write("data.csv", "region,amount\nnorth,10\nsouth,32\n");
    let code = "import pandas as pd\ndata = pd.read_csv('data.csv')\n# %%\n\
                data.to_json('out.json')\nprint(data.amount.sum())\n";
    place.write("needs.py", code);
    let ran =
        place.run_with_templates(&["cells", "needs.py", "--in", "data.csv", "--out", "out.json"]);
    ran.expect_status(0).expect_text("42\n");
    assert_eq!(read(&place, "out.json")["amount"]["1"], 32);
}

#[test]
fn limits_hold_and_say_how_to_raise_them() {
    if !can_use(TEMPLATE) {
        return;
    }
    let place = Place::new();
    place.write("loop.py", "print('on')\n# %%\nwhile True: pass\n# %%\nprint('never')\n");
    let ran = place.run_with_templates(&["cells", "loop.py", "--time", "2s"]);
    ran.expect_status(124).expect_text("on\n").expect_words(&[
        "stopped: the code ran longer than 2s (timeout_wall)",
        "hint: give it more with --time 8s",
        "cell 2 failed; 1 cell was not run",
    ]);
    place.write("large.py", "data = bytearray(400_000_000)\n");
    let ran = place.run_with_templates(&["cells", "large.py", "--memory", "200M"]);
    ran.expect_status(122).expect_words(&["(oom)", "--memory 800M"]);
}

#[test]
fn code_without_a_network_has_none_and_with_one_finds_the_gateway() {
    if !can_use(TEMPLATE) {
        return;
    }
    let place = Place::new();
    let code = "import os, urllib.request\n\
                print('HTTP_PROXY' in os.environ)\n\
                try: urllib.request.urlopen('http://refused.example/')\n\
                except Exception as error: print(getattr(error, 'code', 'no code'))\n";
    place.write("ask.py", code);
    let ran = place.run_with_templates(&["cells", "ask.py"]);
    ran.expect_status(0).expect_text("False\nno code\n");
    let ran = place.run_with_templates(&["cells", "ask.py", "--allow", "allowed.example"]);
    ran.expect_status(0).expect_text("True\n403\n");
    ran.expect_words(&["network: refused refused.example"]);
}

/// Forks get the access of the sandbox that they come from.
#[test]
fn a_fork_has_the_same_network() {
    if !can_use(TEMPLATE) {
        return;
    }
    let place = Place::new();
    let code = "import urllib.request\n\
                def ask():\n    try: urllib.request.urlopen('http://refused.example/')\n    \
                except Exception as error: print(getattr(error, 'code', 'no code'))\n\
                # %% checkpoint here\nask()\n# %% at here\nask()\n";
    place.write("fork.py", code);
    let ran = place.run_with_templates(&["cells", "fork.py", "--allow", "allowed.example"]);
    ran.expect_status(0).expect_text("403\n403\n");
}

#[test]
fn charts_are_saved() {
    if !can_use(TEMPLATE) {
        return;
    }
    let place = Place::new();
    let code = "import matplotlib.pyplot as plt\n# %%\nplt.plot([1, 2]); plt.show()\n\
                plt.plot([2, 1]); plt.show()\n";
    place.write("plot.py", code);
    let ran = place.run_with_templates(&["cells", "plot.py"]);
    ran.expect_status(0).expect_words(&["the cells showed 2 images; --save-charts DIR saves them"]);
    let ran = place.run_with_templates(&["cells", "plot.py", "--save-charts", "charts"]);
    ran.expect_status(0).expect_words(&["saved charts/cell-2-1.png", "saved charts/cell-2-2.png"]);
    for name in ["charts/cell-2-1.png", "charts/cell-2-2.png"] {
        assert!(place.read(name).starts_with(b"\x89PNG\r\n"), "{name}");
    }
}

#[test]
fn a_notebook_comes_back_with_its_outputs() {
    if !can_use(TEMPLATE) {
        return;
    }
    let place = Place::new();
    let sources = [
        "import sys\nx = None\nprint('out'); print('aside', file=sys.stderr)\n{'a': 1}",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "",
        "1/0",
        "print('never')",
    ];
    place.write("nb.ipynb", notebook(&sources));
    let ran = place.run_with_templates(&["cells", "nb.ipynb", "--save-notebook", "done.ipynb"]);
    ran.expect_status(1).expect_words(&["ZeroDivisionError", "cell 3 failed; 1 cell was not run"]);
    let document = read(&place, "done.ipynb");
    let cells = document["cells"].as_array().unwrap();
    assert_eq!((&document["nbformat"], &document["nbformat_minor"]), (&4.into(), &5.into()));
    let counts: Vec<_> = cells.iter().skip(1).map(|cell| cell["execution_count"].clone()).collect();
    assert_eq!(counts, [1.into(), 2.into(), Value::Null, 3.into(), Value::Null]);
    let kinds = |cell: &Value| {
        let outputs = cell["outputs"].as_array().unwrap().iter();
        outputs.map(|output| output["output_type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&cells[1]), ["stream", "stream", "execute_result"]);
    let result = &cells[1]["outputs"][2];
    assert_eq!(result["execution_count"], 1);
    assert_eq!(result["data"]["text/plain"], json!(["{'a': 1}"]));
    let shown = cells[2]["outputs"].as_array().unwrap();
    let chart = shown.iter().find(|output| output["output_type"] == "display_data").unwrap();
    assert!(chart["data"]["image/png"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    assert_eq!(kinds(&cells[4]), ["error"]);
    assert_eq!(cells[4]["outputs"][0]["ename"], "ZeroDivisionError");
    assert!(cells[5]["outputs"].as_array().unwrap().is_empty());
    validate(&place, "done.ipynb");
    // It may be run again, over itself, and a file of cells can become a notebook.
    let again = ["cells", "done.ipynb", "--save-notebook", "done.ipynb"];
    place.run_with_templates(&again).expect_status(1);
    assert_eq!(read(&place, "done.ipynb")["cells"][1]["id"], cells[1]["id"]);
    place.write("plain.py", "1 + 1\n# %% checkpoint two\nprint('é')\n");
    let made = ["cells", "plain.py", "--save-notebook", "made.ipynb"];
    place.run_with_templates(&made).expect_status(0);
    validate(&place, "made.ipynb");
}

#[test]
fn a_cell_that_may_raise_does_not_end_the_run() {
    if !can_use(TEMPLATE) {
        return;
    }
    let place = Place::new();
    let mut document: Value = serde_json::from_str(&notebook(&["1/0", "print('on')"])).unwrap();
    document["cells"][1]["metadata"]["tags"] = json!(["raises-exception"]);
    place.write("nb.ipynb", document.to_string());
    let ran = place.run_with_templates(&["cells", "nb.ipynb"]);
    ran.expect_status(0).expect_text("on\n").expect_words(&["hint: --save-notebook FILE"]);
}

#[test]
fn what_is_no_notebook_is_refused_before_anything_runs() {
    let place = Place::new();
    place.write("nb.ipynb", "print(1)");
    let ran = place.run(&["cells", "nb.ipynb"]);
    ran.expect_status(125).expect_words(&["cannot read `nb.ipynb`", "it is no notebook"]);
    place.write("old.ipynb", r#"{"nbformat": 3, "worksheets": []}"#);
    let ran = place.run(&["cells", "old.ipynb"]);
    ran.expect_status(125).expect_words(&["no notebook in format 4", "jupyter nbconvert"]);
    place.write("nb.ipynb", notebook(&["1"]));
    let ran = place.run(&["cells", "nb.ipynb", "--save-notebook", "none/nb.ipynb"]);
    ran.expect_status(125).expect_words(&["cannot write `none/nb.ipynb`"]);
}

/// Asks Jupyter's own package, where it can be installed.
#[track_caller]
fn validate(place: &Place, name: &str) {
    let venv = place.path().join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        let made = Command::new("python3").arg("-m").arg("venv").arg(&venv).status();
        let installed = made.is_ok_and(|status| status.success())
            && Command::new(venv.join("bin/pip"))
                .args(["install", "--quiet", "nbformat>=5.10"])
                .status()
                .is_ok_and(|status| status.success());
        if !installed {
            eprintln!("SKIPPED: nbformat cannot be installed, so `{name}` was not validated by it");
            return;
        }
    }
    let check = "import sys, warnings, nbformat\nwarnings.simplefilter('error')\n\
                 notebook = nbformat.read(sys.argv[1], as_version=nbformat.NO_CONVERT)\n\
                 nbformat.validate(notebook)\nassert notebook.nbformat_minor == 5";
    let output =
        Command::new(&python).args(["-c", check]).arg(place.path().join(name)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
