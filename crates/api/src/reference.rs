//! The document as a page to read: plain HTML, and nothing is loaded from elsewhere. A script
//! that is part of the page searches it; everything else works without it.

mod examples;
mod schema;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::document::{TAGS, document};

const STYLE: &str = include_str!("reference/style.css");

/// The page's only script, for the hash in its content security policy.
pub const SCRIPT: &str = include_str!("reference/search.js");

/// Stands in the page for the address of the server that shows it.
const ORIGIN: &str = "@ORIGIN@";

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page, for [`page_at`].
pub fn page() -> String {
    render(&document())
}

/// The page as a server at `origin` shows it, such as `https://sandboxes.example.com`.
pub fn page_at(page: &str, origin: &str) -> String {
    page.replace(ORIGIN, &escaped(origin))
}

fn render(document: &Value) -> String {
    let operations = operations(document);
    let errors = errors(&operations);
    let mut html = String::with_capacity(1 << 17);
    let text =
        |path: &str| escaped(document.pointer(path).and_then(Value::as_str).unwrap_or_default());
    html.push_str("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    put(
        &mut html,
        format_args!(
            "<title>{} API</title><style>{STYLE}</style></head><body>",
            text("/info/title")
        ),
    );
    navigation(&mut html, &operations);
    put(
        &mut html,
        format_args!(
            "<main><header><h1>{} API</h1><p class=\"quiet\">{}</p><p>{}</p>{FIRST}\
             <p>As JSON: <a href=\"/v1/openapi.json\">openapi.json</a></p></header>\
             <p id=\"none\" hidden>Nothing on this page has all of these words.</p>",
            text("/info/title"),
            text("/info/summary"),
            schema::words(document.pointer("/info/description")),
        ),
    );
    for (tag, about) in TAGS {
        put(&mut html, format_args!("<section><h2 id=\"{tag}\">{tag}</h2><p>{about}</p>"));
        for operation in operations.iter().filter(|operation| operation.tag == tag) {
            article(&mut html, operation, &errors);
        }
        html.push_str("</section>");
    }
    error_section(&mut html, &errors);
    html.push_str("<section><h2 id=\"types\">Types</h2><p>Schemas of requests and responses.</p>");
    let types = document.pointer("/components/schemas").and_then(Value::as_object);
    for (name, described) in types.into_iter().flatten() {
        schema::named(&mut html, name, described);
    }
    put(&mut html, format_args!("</section></main><script>{SCRIPT}</script></body></html>\n"));
    html
}

const FIRST: &str = "<pre>curl -X POST -H \"X-API-Key: $BELLJAR_API_KEY\" \\
  -d '{\"timeout_seconds\": 60}' @ORIGIN@/v1/sandboxes</pre>";

struct Described<'a> {
    method: String,
    path: &'a str,
    tag: &'a str,
    id: &'a str,
    body: &'a Value,
}

/// Every operation, in the order of the document's own list.
fn operations(document: &Value) -> Vec<Described<'_>> {
    let paths = document["paths"].as_object();
    let mut all = Vec::new();
    for (path, methods) in paths.into_iter().flatten() {
        for method in METHODS {
            let body = &methods[method];
            let text = |value: &'_ Value| value.as_str().map(str::to_owned);
            if text(&body["operationId"]).is_none() {
                continue;
            }
            all.push(Described {
                method: method.to_uppercase(),
                path,
                tag: body["tags"][0].as_str().unwrap_or_default(),
                id: body["operationId"].as_str().unwrap_or_default(),
                body,
            });
        }
    }
    let place = |id: &str| crate::Operation::ALL.iter().position(|known| known.name() == id);
    all.sort_by_key(|operation| place(operation.id));
    all
}

fn navigation(html: &mut String, operations: &[Described<'_>]) {
    html.push_str(
        "<nav><div class=\"bar\"><h1>Belljar API</h1><label class=\"toggle\" for=\"menu\">Menu\
         </label></div><input id=\"search\" type=\"search\" placeholder=\"Search ( / )\" \
         aria-label=\"Search operations and types\" hidden>\
         <input id=\"menu\" type=\"checkbox\" aria-label=\"Show the menu\"><div class=\"list\">",
    );
    for (tag, _) in TAGS {
        put(html, format_args!("<h2><a href=\"#{tag}\">{tag}</a></h2><ul>"));
        for operation in operations.iter().filter(|operation| operation.tag == tag) {
            let name = spaced(operation.id);
            put(
                html,
                format_args!("<li data-for=\"{0}\"><a href=\"#{0}\">{name}</a></li>", operation.id),
            );
        }
        html.push_str("</ul>");
    }
    html.push_str("<h2><a href=\"#errors\">errors</a></h2>");
    html.push_str("<h2><a href=\"#types\">types</a></h2></div></nav>");
}

/// What each status of an error means, wherever nothing else is said.
type Errors<'a> = BTreeMap<&'a str, &'a str>;

fn errors<'a>(operations: &[Described<'a>]) -> Errors<'a> {
    let mut errors = Errors::new();
    for operation in operations {
        for (status, response) in operation.body["responses"].as_object().into_iter().flatten() {
            let meaning = response["description"].as_str().unwrap_or_default();
            if status.as_str() >= "400" {
                errors.entry(status).or_insert(meaning);
            }
        }
    }
    errors
}

fn error_section(html: &mut String, errors: &Errors<'_>) {
    html.push_str(
        "<section><h2 id=\"errors\">Errors</h2><p>Every error is a \
         <a href=\"#type-Problem\">Problem</a>; its <code>code</code> says which.</p>\
         <article><div class=\"tables\"><table>",
    );
    for (status, meaning) in errors {
        put(
            html,
            format_args!(
                "<tr id=\"error-{status}\"><td><code>{status}</code></td><td>{}</td></tr>",
                escaped(meaning)
            ),
        );
    }
    html.push_str("</table></div></article></section>");
}

fn article(html: &mut String, operation: &Described<'_>, errors: &Errors<'_>) {
    let Described { method, path, id, body, .. } = operation;
    put(
        html,
        format_args!(
            "<article id=\"{id}\"><h3><span class=\"method {method}\">{method}</span>\
             <code>{}</code></h3><p>{}</p>",
            escaped(path),
            schema::words(body.get("summary")),
        ),
    );
    let ways = body["security"].as_array();
    if ways.is_some_and(Vec::is_empty) {
        html.push_str("<p class=\"quiet\">Needs no key.</p>");
    }
    if ways.is_some_and(|ways| ways.iter().any(|way| way.get("sandbox").is_some())) {
        html.push_str("<p class=\"quiet\">Accepts the sandbox's own token instead of a key.</p>");
    }
    let parameters = body["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        html.push_str("<h4>Parameters</h4><div class=\"tables\"><table>");
        for parameter in parameters {
            let place = parameter["in"].as_str().unwrap_or_default();
            let required = if parameter["required"] == true { "" } else { ", optional" };
            put(
                html,
                format_args!(
                    "<tr><td><code>{}</code></td><td class=\"quiet\">{place}{required}</td>\
                     <td><div class=\"quiet\">{}</div>{}</td></tr>",
                    escaped(parameter["name"].as_str().unwrap_or_default()),
                    schema::kind(&parameter["schema"]),
                    schema::words(parameter.get("description")),
                ),
            );
        }
        html.push_str("</table></div>");
    }
    if let Some(content) = body["requestBody"]["content"].as_object() {
        html.push_str("<h4>Body</h4>");
        bodies(html, content);
    }
    if let Some(command) = examples::command(id, method, path) {
        put(html, format_args!("<pre>{command}</pre>"));
    }
    html.push_str("<h4>Responses</h4><div class=\"tables\"><table>");
    let mut usual = Vec::new();
    for (status, response) in body["responses"].as_object().into_iter().flatten() {
        // Said once, for all operations.
        if errors.get(status.as_str()).copied() == response["description"].as_str() {
            usual.push(format!("<a href=\"#error-{status}\">{status}</a>"));
            continue;
        }
        put(
            html,
            format_args!(
                "<tr><td><code>{status}</code></td><td>{} ",
                schema::words(response.get("description"))
            ),
        );
        if let Some(content) = response["content"].as_object() {
            bodies(html, content);
        }
        html.push_str("</td></tr>");
    }
    html.push_str("</table></div>");
    if !usual.is_empty() {
        put(html, format_args!("<p class=\"quiet\">Errors: {}</p>", usual.join(" ")));
    }
    html.push_str("</article>");
}

fn bodies(html: &mut String, content: &serde_json::Map<String, Value>) {
    for (kind, media) in content {
        let schema = media.get("schema").map(schema::kind).unwrap_or_default();
        put(html, format_args!("<div class=\"quiet\"><code>{kind}</code> {schema}</div>"));
    }
}

/// `CreateSandbox` as people write it.
fn spaced(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
            text.extend(letter.to_lowercase());
        } else {
            text.push(letter);
        }
    }
    text
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = html.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_every_operation_and_loads_nothing() {
        let page = page();
        for operation in crate::Operation::ALL {
            assert!(page.contains(&format!("id=\"{}\"", operation.name())), "{}", operation.name());
        }
        for foreign in ["src=", "@import", "url(", "//cdn", "import("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        // The policy allows this one, by its hash.
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains(&format!("<script>{SCRIPT}</script>")));
    }

    #[test]
    fn examples_ask_the_server_that_shows_the_page() {
        let page = page_at(&page(), "https://sandboxes.example.com");
        assert!(!page.contains(ORIGIN) && !page.contains("localhost"));
        let create = "curl -X POST &quot;https://sandboxes.example.com/v1/sandboxes&quot; ";
        assert!(page.contains(create));
        assert!(!page_at(ORIGIN, "http://<b>").contains("<b>"), "a client names the host");
    }

    #[test]
    fn what_an_error_means_is_said_once() {
        let page = page();
        for meaning in [
            "The key is missing or invalid.",
            "The resource does not exist or belongs to another tenant.",
        ] {
            assert_eq!(page.matches(meaning).count(), 1, "{meaning}");
        }
    }

    #[test]
    fn every_link_within_the_page_leads_somewhere() {
        let page = page();
        let targets = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
        for target in targets {
            assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        }
    }
}
