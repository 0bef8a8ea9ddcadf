use belljar_domain::{EndReason, Usage};
use belljar_node::{CellEnd, CellError};

use super::*;

/// A notebook as JupyterLab 3 wrote it: format 4.4, without ids.
const OLD: &str = r##"{"cells": [
 {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "text"]},
 {"cell_type": "code", "execution_count": 7, "metadata": {"tags": ["raises-exception"]},
  "outputs": [{"output_type": "stream", "name": "stdout", "text": "old"}], "source": "1/0"},
 {"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": []},
 {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [],
  "source": ["x = 1\n", "x"]}],
 "metadata": {"kernelspec": {"display_name": "P", "language": "python", "name": "python3"}},
 "nbformat": 4, "nbformat_minor": 4}"##;

fn end(count: u64) -> CellEvent {
    let (reason, usage) = (EndReason::Done, Usage::default());
    CellEvent::End(CellEnd { reason, ok: true, count, usage, alive: true })
}

fn display(id: Option<&str>, update: bool, text: &str) -> CellEvent {
    CellEvent::Display(Display {
        data: Bundle::from([("text/plain".to_owned(), text.into())]),
        metadata: Map::new(),
        display_id: id.map(str::to_owned),
        update,
    })
}

fn written(notebook: &Notebook) -> Value {
    serde_json::from_str(&notebook.to_text().unwrap()).unwrap()
}

#[test]
fn cells_keep_what_their_author_wrote_and_get_ids() {
    let notebook = Notebook::parse(OLD).unwrap();
    let code: Vec<_> = notebook.code().map(|code| (code.text, code.may_fail)).collect();
    assert_eq!(code, [("1/0".to_owned(), true), ("x = 1\nx".to_owned(), false)]);
    let document = written(&notebook);
    assert_eq!(document["nbformat_minor"], 5);
    let cells = document["cells"].as_array().unwrap();
    let ids: Vec<_> = cells.iter().map(|cell| cell["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["cell-1", "cell-2", "cell-3", "cell-4"]);
    assert_eq!(cells[0]["source"], json!(["# Title\n", "text"]));
    assert!(cells[0].get("outputs").is_none(), "a text has no outputs");
    let bare = (&cells[1]["outputs"], &cells[1]["execution_count"]);
    assert_eq!(bare, (&json!([]), &Value::Null), "what was not run shows nothing old");
}

#[test]
fn outputs_are_written_as_jupyter_writes_them() {
    let mut notebook = Notebook::parse(OLD).unwrap();
    for piece in ["a\nb".as_bytes(), b"\xc3", b"\xa9\n"] {
        notebook.take(1, &CellEvent::Stdout(piece.to_vec()));
    }
    notebook.take(1, &CellEvent::Stderr(b"aside".to_vec()));
    let data = Bundle::from([
        ("text/plain".to_owned(), "<Figure>\n2".into()),
        ("image/png".to_owned(), "aGk=\n".into()),
        ("application/json".to_owned(), json!({"a": [1]})),
        ("e2b/chart".to_owned(), json!({"type": "line"})),
    ]);
    notebook.take(1, &CellEvent::Result { data, metadata: Map::new() });
    notebook.take(1, &end(4));
    let error = CellError {
        name: "ZeroDivisionError".into(),
        value: "division by zero".into(),
        traceback: vec!["line".into()],
    };
    notebook.take(0, &CellEvent::Error(error));
    notebook.take(0, &end(3));
    let document = written(&notebook);
    let cell = &document["cells"][3];
    assert_eq!(cell["execution_count"], 4);
    let want = json!([
        {"output_type": "stream", "name": "stdout", "text": ["a\n", "bé\n"]},
        {"output_type": "stream", "name": "stderr", "text": ["aside"]},
        {"output_type": "execute_result", "execution_count": 4, "metadata": {}, "data": {
            "text/plain": ["<Figure>\n", "2"],
            "image/png": "aGk=\n",
            "application/json": {"a": [1]},
        }},
    ]);
    assert_eq!(cell["outputs"], want);
    let want = json!([{
        "output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero",
        "traceback": ["line"],
    }]);
    assert_eq!(document["cells"][1]["outputs"], want);
}

#[test]
fn an_update_replaces_what_was_shown_under_its_id() {
    let mut notebook = Notebook::new("python", ["a", "b"].into_iter());
    notebook.take(0, &display(Some("bar"), false, "0 %"));
    notebook.take(0, &display(None, false, "other"));
    notebook.take(1, &display(Some("bar"), true, "100 %"));
    let document = written(&notebook);
    let outputs = document["cells"][0]["outputs"].as_array().unwrap();
    assert_eq!(outputs[0]["data"]["text/plain"], json!(["100 %"]));
    assert_eq!((outputs.len(), &document["cells"][1]["outputs"]), (2, &json!([])));
}

#[test]
fn ids_are_unique_and_fit() {
    let cell =
        |id: &str| format!(r#"{{"cell_type":"raw","id":{id:?},"metadata":{{}},"source":""}}"#);
    let cells = ["cell-2", "no good", "cell-2", "fine"].map(cell).join(",");
    let text = format!(r#"{{"cells":[{cells}],"metadata":{{}},"nbformat":4,"nbformat_minor":5}}"#);
    let document = written(&Notebook::parse(&text).unwrap());
    let cells = document["cells"].as_array().unwrap();
    let ids: Vec<_> = cells.iter().map(|cell| cell["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["cell-2", "cell-2-2", "cell-3", "fine"]);
}

#[test]
fn other_formats_are_refused_with_a_way_on() {
    for text in ["[]", "{}", r#"{"nbformat":3,"worksheets":[]}"#, "print(1)"] {
        assert!(Notebook::parse(text).is_err(), "{text}");
    }
}
