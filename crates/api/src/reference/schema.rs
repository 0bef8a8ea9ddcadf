//! Schemas, as people read them.

use std::fmt::Write as _;

use serde_json::Value;

use super::escaped;

/// A type that has a name, with its fields.
pub(super) fn named(html: &mut String, name: &str, schema: &Value) {
    let _ = write!(
        html,
        "<details class=\"type\" id=\"type-{0}\" open><summary>{0}</summary>",
        escaped(name)
    );
    let about = words(schema.get("description"));
    if !about.is_empty() {
        let _ = write!(html, "<p>{about}</p>");
    }
    body(html, schema);
    html.push_str("</details>");
}

fn body(html: &mut String, schema: &Value) {
    for variant in variants(schema) {
        let about = words(variant.get("description"));
        match variant.get("properties") {
            Some(_) => {
                if !about.is_empty() {
                    let _ = write!(html, "<p class=\"quiet\">{about}</p>");
                }
                if let Some(reference) = variant.get("$ref") {
                    let _ = write!(html, "<p>All of {}, and:</p>", link(reference));
                }
                fields(html, variant);
            }
            None => {
                let _ = write!(html, "<p>{} {about}</p>", kind(variant));
            }
        }
    }
}

/// The alternatives of a type; itself when there are none.
fn variants(schema: &Value) -> Vec<&Value> {
    let listed = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key)?.as_array());
    match listed {
        Some(list) => list.iter().collect(),
        None if schema.get("properties").is_some() || schema.get("enum").is_some() => vec![schema],
        None => Vec::new(),
    }
}

fn fields(html: &mut String, schema: &Value) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    html.push_str("<div class=\"tables\"><table>");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let optional = if required.contains(&name.as_str()) { "" } else { ", optional" };
        let _ = write!(
            html,
            "<tr><td><code>{}</code></td><td class=\"quiet\">{}{optional}</td><td>{}</td></tr>",
            escaped(name),
            kind(field),
            words(field.get("description")),
        );
    }
    html.push_str("</table></div>");
}

/// What kind of value it is, with its bounds, on one line.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref") {
        return link(reference);
    }
    if let Some(value) = schema.get("const") {
        return format!("<code>{}</code>", escaped(&value.to_string()));
    }
    if let Some(values) = schema["enum"].as_array() {
        let all: Vec<_> =
            values.iter().map(|v| format!("<code>{}</code>", escaped(&v.to_string()))).collect();
        return all.join(" ");
    }
    for alternatives in ["anyOf", "oneOf"] {
        if let Some(list) = schema[alternatives].as_array() {
            let all: Vec<_> = list.iter().map(kind).collect();
            return all.join(" or ");
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    let mut text = types.join(" or ");
    if let Some(items) = schema.get("items") {
        let _ = write!(text, " of {}", kind(items));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        let _ = write!(text, " of {}", kind(values));
    }
    let bound = |name: &str| schema.get(name).map(Value::to_string);
    let pairs = [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ];
    for (least, most, unit) in pairs {
        match (bound(least), bound(most)) {
            (Some(least), Some(most)) if least == most => {
                let _ = write!(text, ", {most}{unit}");
            }
            (Some(least), Some(most)) => {
                let _ = write!(text, ", {least} to {most}{unit}");
            }
            (None, Some(most)) => {
                let _ = write!(text, ", at most {most}{unit}");
            }
            _ => {}
        }
    }
    if let Some(format) = schema["format"]
        .as_str()
        .filter(|format| !format.starts_with("uint") && !format.starts_with("int"))
    {
        let _ = write!(text, " ({})", escaped(format));
    }
    text
}

fn link(reference: &Value) -> String {
    let name = reference.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    format!("<a href=\"#type-{0}\">{0}</a>", escaped(name))
}

/// A sentence, with what stands between backticks as code.
pub(super) fn words(text: Option<&Value>) -> String {
    let text = escaped(text.and_then(Value::as_str).unwrap_or_default());
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            let _ = write!(out, "<code>{part}</code>");
        } else {
            out.push_str(part);
        }
    }
    out
}
