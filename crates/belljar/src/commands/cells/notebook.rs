//! Jupyter notebooks: read in any minor version of format 4, written as 4.5.
//!
//! What the notebook's author wrote stays as it is. Outputs are written as
//! Jupyter writes them: streams in one piece, text as lists of lines, keys
//! sorted, an indent of one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use belljar_node::{Bundle, CellEvent, Display};
use serde::Serialize as _;
use serde_json::{Map, Value, json};

use crate::output::hinted;

/// A notebook and the outputs of its code cells.
#[derive(Debug)]
pub(super) struct Notebook {
    document: Map<String, Value>,
    /// Those with code, in order.
    code: Vec<CodeCell>,
    /// Places of displays that may be replaced, by their id: cell and output.
    displays: BTreeMap<String, Vec<(usize, usize)>>,
}

#[derive(Debug)]
struct CodeCell {
    /// The place in the document.
    position: usize,
    count: Option<u64>,
    outputs: Vec<Output>,
}

#[derive(Debug)]
enum Output {
    /// Bytes: a character may come in two pieces.
    Stream {
        name: &'static str,
        bytes: Vec<u8>,
    },
    Display {
        data: Value,
        metadata: Value,
    },
    Result {
        data: Value,
        metadata: Value,
    },
    Error {
        name: String,
        value: String,
        traceback: Vec<String>,
    },
}

/// The code of a cell, as the notebook has it.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) text: String,
    pub(super) may_fail: bool,
}

impl Notebook {
    /// Reads a notebook, without its old outputs.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let document: Value = serde_json::from_str(text).context("it is no notebook")?;
        let Value::Object(mut document) = document else { bail!("it is no notebook") };
        if document.get("nbformat").and_then(Value::as_u64) != Some(4) {
            let error = anyhow::anyhow!("it is no notebook in format 4");
            let hint = "convert it with `jupyter nbconvert --to notebook`";
            return Err(hinted(error, hint));
        }
        let minor = document.get("nbformat_minor").and_then(Value::as_u64).unwrap_or(0);
        document.insert("nbformat_minor".to_owned(), minor.max(5).into());
        document.entry("metadata").or_insert_with(|| json!({}));
        let cells = document.get_mut("cells").and_then(Value::as_array_mut);
        let cells = cells.context("the notebook has no `cells`")?;
        let mut code = Vec::new();
        let mut ids = BTreeSet::new();
        for (position, cell) in cells.iter_mut().enumerate() {
            let cell = cell.as_object_mut();
            let cell = cell.with_context(|| format!("cell {} is no object", position + 1))?;
            identify(cell, position, &mut ids);
            if cell.get("cell_type").and_then(Value::as_str) != Some("code") {
                continue;
            }
            cell.insert("outputs".to_owned(), json!([]));
            cell.insert("execution_count".to_owned(), Value::Null);
            let source = cell.get("source").and_then(text_of);
            let source = source.with_context(|| format!("cell {} has no source", position + 1))?;
            if !source.trim().is_empty() {
                code.push(CodeCell { position, count: None, outputs: Vec::new() });
            }
        }
        Ok(Self { document, code, displays: BTreeMap::new() })
    }

    /// A notebook of these cells.
    pub(super) fn new<'a>(language: &str, codes: impl Iterator<Item = &'a str>) -> Self {
        let cell = |(position, code): (usize, &str)| {
            json!({
                "cell_type": "code",
                "execution_count": null,
                "id": format!("cell-{}", position + 1),
                "metadata": {},
                "outputs": [],
                "source": lines(code.trim_end_matches('\n')),
            })
        };
        let cells: Vec<Value> = codes.enumerate().map(cell).collect();
        let code = (0..cells.len())
            .map(|position| CodeCell { position, count: None, outputs: Vec::new() })
            .collect();
        let (kernel, title) = match language {
            "python" => ("python3", "Python 3"),
            other => (other, other),
        };
        let document = json!({
            "cells": cells,
            "metadata": {
                "kernelspec": {"display_name": title, "language": language, "name": kernel},
                "language_info": {"name": language},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        });
        let Value::Object(document) = document else { unreachable!("it is an object") };
        Self { document, code, displays: BTreeMap::new() }
    }

    /// The name of the kernel's language, if the notebook has it.
    pub(super) fn language(&self) -> Option<&str> {
        let metadata = self.document.get("metadata")?;
        let places = ["/language_info/name", "/kernelspec/language", "/kernelspec/name"];
        places.iter().find_map(|place| metadata.pointer(place)?.as_str())
    }

    /// The code cells that have code, in order.
    pub(super) fn code(&self) -> impl Iterator<Item = Code> {
        self.code.iter().filter_map(|code| {
            let cell = self.document.get("cells")?.get(code.position)?;
            let tags = cell.pointer("/metadata/tags").and_then(Value::as_array);
            let may_fail =
                tags.is_some_and(|tags| tags.iter().any(|tag| tag == "raises-exception"));
            Some(Code { text: cell.get("source").and_then(text_of)?, may_fail })
        })
    }

    /// Adds an event of the code cell at `index` to its outputs.
    pub(super) fn take(&mut self, index: usize, event: &CellEvent) {
        let Some(cell) = self.code.get_mut(index) else { return };
        match event {
            CellEvent::Stdout(bytes) => cell.print("stdout", bytes),
            CellEvent::Stderr(bytes) => cell.print("stderr", bytes),
            CellEvent::Display(display) => self.display(index, display),
            CellEvent::Result { data, metadata } => {
                let metadata = metadata.clone().into();
                cell.outputs.push(Output::Result { data: bundle(data), metadata });
            }
            CellEvent::Error(error) => cell.outputs.push(Output::Error {
                name: error.name.clone(),
                value: error.value.clone(),
                traceback: error.traceback.clone(),
            }),
            CellEvent::End(end) => cell.count = (end.count > 0).then_some(end.count),
        }
    }

    fn display(&mut self, index: usize, display: &Display) {
        let (data, metadata) = (bundle(&display.data), Value::from(display.metadata.clone()));
        if display.update {
            let known = display.display_id.as_ref().and_then(|id| self.displays.get(id));
            for &(cell, output) in known.into_iter().flatten() {
                let place = self.code.get_mut(cell).and_then(|cell| cell.outputs.get_mut(output));
                if let Some(place) = place {
                    *place = Output::Display { data: data.clone(), metadata: metadata.clone() };
                }
            }
            return;
        }
        let Some(cell) = self.code.get_mut(index) else { return };
        if let Some(id) = &display.display_id {
            self.displays.entry(id.clone()).or_default().push((index, cell.outputs.len()));
        }
        cell.outputs.push(Output::Display { data, metadata });
    }

    /// The file's text.
    pub(super) fn to_text(&self) -> anyhow::Result<String> {
        let mut document = self.document.clone();
        for code in &self.code {
            let cell = document.get_mut("cells").and_then(|cells| cells.get_mut(code.position));
            if let Some(cell) = cell.and_then(Value::as_object_mut) {
                let outputs = code.outputs.iter().map(|output| output.to_json(code.count));
                cell.insert("outputs".to_owned(), outputs.collect());
                cell.insert("execution_count".to_owned(), code.count.into());
            }
        }
        let mut text = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
        document.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
        text.push(b'\n');
        Ok(String::from_utf8(text)?)
    }
}

impl CodeCell {
    fn print(&mut self, stream: &'static str, more: &[u8]) {
        match self.outputs.last_mut() {
            Some(Output::Stream { name, bytes }) if *name == stream => bytes.extend(more),
            _ => self.outputs.push(Output::Stream { name: stream, bytes: more.to_vec() }),
        }
    }
}

impl Output {
    fn to_json(&self, count: Option<u64>) -> Value {
        match self {
            Self::Stream { name, bytes } => json!({
                "output_type": "stream",
                "name": name,
                "text": lines(&String::from_utf8_lossy(bytes)),
            }),
            Self::Display { data, metadata } => {
                json!({"output_type": "display_data", "data": data, "metadata": metadata})
            }
            Self::Result { data, metadata } => json!({
                "output_type": "execute_result",
                "execution_count": count,
                "data": data,
                "metadata": metadata,
            }),
            Self::Error { name, value, traceback } => json!({
                "output_type": "error", "ename": name, "evalue": value, "traceback": traceback,
            }),
        }
    }
}

/// A bundle as notebooks hold it: JSON under JSON's media types, text under all others. The forms
/// that E2B's SDKs read (`e2b/chart`, `e2b/data`) are neither, and are left out.
fn bundle(data: &Bundle) -> Value {
    let forms = data.iter().filter_map(|(form, value)| {
        let is_json = form
            .strip_prefix("application/")
            .is_some_and(|rest| rest == "json" || rest.ends_with("+json"));
        let value = match value {
            value if is_json => value.clone(),
            Value::String(text) if is_text(form) => lines(text),
            Value::String(text) => text.clone().into(),
            _ => return None,
        };
        Some((form.clone(), value))
    });
    forms.collect::<Map<_, _>>().into()
}

/// Returns true for the forms that Jupyter writes as lists of lines.
fn is_text(form: &str) -> bool {
    form.starts_with("text/") || matches!(form, "application/javascript" | "image/svg+xml")
}

/// Text as a list of lines, each with its end.
fn lines(text: &str) -> Value {
    text.split_inclusive('\n').collect()
}

/// The text of a string or of a list of lines.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// Gives a cell the id that format 4.5 asks for, if it has no fit one of its own.
fn identify(cell: &mut Map<String, Value>, position: usize, ids: &mut BTreeSet<String>) {
    let is_fit = |id: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=64).contains(&id.len()) && id.chars().all(plain)
    };
    let own = cell.get("id").and_then(Value::as_str).filter(|id| is_fit(id)).map(str::to_owned);
    if own.is_some_and(|own| ids.insert(own)) {
        return;
    }
    let names = std::iter::once(String::new()).chain((2..).map(|number| format!("-{number}")));
    let mut names = names.map(|end| format!("cell-{}{end}", position + 1));
    if let Some(id) = names.find(|id| ids.insert(id.clone())) {
        cell.insert("id".to_owned(), id.into());
    }
}

#[cfg(test)]
mod tests;
