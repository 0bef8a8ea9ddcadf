//! The OpenAPI 3.1 document, made from the types and the list of operations.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::operation::{Access, Answer, Content, Operation, Route};
use crate::problem::Envelope;

/// The whole document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = SchemaGenerator::new(settings);
    let mut paths: Map<String, Value> = Map::new();
    for route in Operation::ALL.iter().map(|operation| operation.route()) {
        let described = operation(&mut generator, &route);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Belljar",
            "version": "1",
            "summary": "Run untrusted code in isolated sandboxes.",
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": TAGS.map(|(name, about)| json!({ "name": name, "description": about })),
        "security": [{ "key": [] }, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
                "bearer": { "type": "http", "scheme": "bearer" },
                "sandbox": { "type": "apiKey", "in": "header", "name": "X-Access-Token" },
            },
            "schemas": generator.take_definitions(true),
        },
    })
}

const DESCRIPTION: &str = "\
Every response has the header `x-request-id`. Every error is a `Problem` with a stable `code`; \
`docs/errors.md` explains each. A resource of another tenant gives the same error as one that does \
not exist. Unknown fields are refused.";

pub(crate) const TAGS: [(&str, &str); 13] = [
    ("sandboxes", "Isolated environments with hard limits."),
    ("calls", "Commands in a sandbox."),
    ("contexts", "Interpreters that keep their state from cell to cell."),
    ("files", "Files in a sandbox."),
    ("network", "Network policies, connections and tokens of sandboxes."),
    ("checkpoints", "Stored states of sandboxes, to fork from."),
    ("runs", "Questions about data, answered by code that a model writes."),
    ("data", "Files that runs work on."),
    ("templates", "Bases for sandboxes."),
    ("events", "Live events of sandboxes."),
    ("webhooks", "URLs that are called when something happens to sandboxes and runs."),
    ("workflows", "Steps that are runs or calls, with data between them."),
    ("server", "Health and reference. These routes need no key."),
];

fn operation(generator: &mut SchemaGenerator, route: &Route) -> Value {
    let mut described = json!({
        "operationId": route.operation.name(),
        "tags": [route.tag],
        "summary": route.summary,
        "responses": responses(generator, route),
    });
    let parameters = parameters(generator, route);
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    match route.content {
        Content::None => {}
        Content::Json(shape) => {
            let schema = shape(generator);
            let required = needs_something(generator, schema.as_value());
            described["requestBody"] = json!({
                "required": required,
                "content": { "application/json": { "schema": schema } },
            });
        }
        Content::Bytes => {
            described["requestBody"] = json!({
                "required": true,
                "content": { "application/octet-stream": {} },
            });
        }
    }
    if route.access == Access::Public {
        described["security"] = json!([]);
    } else if route.is_inside() {
        described["security"] = json!([{ "key": [] }, { "bearer": [] }, { "sandbox": [] }]);
    }
    described
}

/// Whether a body must be there because something in it must.
fn needs_something(generator: &SchemaGenerator, reference: &Value) -> bool {
    let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let schema = name.and_then(|name| generator.definitions().get(name));
    schema.is_some_and(|schema| !schema["required"].is_null())
}

fn parameters(generator: &mut SchemaGenerator, route: &Route) -> Vec<Value> {
    let mut all: Vec<Value> = route
        .parameters()
        .map(|name| {
            json!({
                "name": name, "in": "path", "required": true,
                "description": parameter(name), "schema": { "type": "string" },
            })
        })
        .collect();
    if let Some(query) = route.query {
        all.extend(query_parameters(generator, query));
    }
    all.extend(route.headers().map(|(name, about)| {
        json!({
            "name": name, "in": "header", "required": false,
            "description": about, "schema": header(name),
        })
    }));
    all
}

fn header(name: &str) -> Value {
    match name {
        "Idempotency-Key" => json!({
            "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-z0-9-]+$",
        }),
        "Run-Generation" => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        _ => json!({ "type": "string" }),
    }
}

fn parameter(name: &str) -> &'static str {
    match name {
        "sandbox" => "Sandbox id.",
        "call" => "Call id.",
        "context" => "Context id.",
        "checkpoint" => "Checkpoint id or name. A name selects the newest with that name.",
        "run" => "Run id.",
        "file" => "Name of a file that the run made, or of an output of the workflow.",
        "turn" => "Number of the turn, from 1.",
        "data" => "SHA-256 of the file's content.",
        "webhook" => "Webhook id.",
        "approval" => "Approval id.",
        "workflow" => "Workflow id.",
        "template" => "Template name, or `name:version`.",
        _ => "",
    }
}

/// The fields of a query's type, each as a parameter.
fn query_parameters(generator: &mut SchemaGenerator, shape: crate::operation::Shape) -> Vec<Value> {
    let reference = shape(generator);
    let name = reference.as_value()["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let Some(name) = name.map(str::to_owned) else { return Vec::new() };
    // A query is no schema that anyone refers to.
    let Some(schema) = generator.definitions_mut().remove(&name) else { return Vec::new() };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let described = properties.iter().map(|(name, schema)| {
        let mut schema = schema.clone();
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let mut parameter = json!({
            "name": name, "in": "query", "required": required.contains(&name.as_str()),
            "schema": schema,
        });
        if let Some(about) = about {
            parameter["description"] = about;
        }
        parameter
    });
    described.collect()
}

fn responses(generator: &mut SchemaGenerator, route: &Route) -> Value {
    let mut all: Map<String, Value> = Map::new();
    let headers = json!({
        "x-request-id": { "description": "Id of the request.", "schema": { "type": "string" } },
    });
    for answer in route.answers {
        let (status, content) = match answer {
            Answer::Json(status, shape) => {
                (*status, ("application/json", schema(generator, *shape)))
            }
            Answer::Events(shape) => (200, ("text/event-stream", schema(generator, *shape))),
            Answer::Bytes => (200, ("application/octet-stream", json!({}))),
            Answer::Html => (200, ("text/html", json!({}))),
            Answer::Svg => (200, ("image/svg+xml", json!({}))),
            Answer::Document => (200, ("application/json", json!({}))),
            Answer::Nothing => (204, ("", Value::Null)),
        };
        let response = all
            .entry(status.to_string())
            .or_insert_with(|| json!({ "description": meaning(status), "headers": headers }));
        if !content.0.is_empty() {
            response["content"][content.0] = content.1;
        }
    }
    for status in route.problems() {
        all.insert(
            status.to_string(),
            json!({
                "description": meaning(status),
                "headers": headers,
                "content": { "application/json": { "schema": generator.subschema_for::<Envelope>() } },
            }),
        );
    }
    all.into()
}

fn schema(generator: &mut SchemaGenerator, shape: crate::operation::Shape) -> Value {
    json!({ "schema": shape(generator) })
}

fn meaning(status: u16) -> &'static str {
    match status {
        200 => "Success.",
        201 => "Created.",
        202 => "Accepted. The run's worker applies it next.",
        204 => "Success, no content.",
        400 => "The request could not be parsed.",
        401 => "The key is missing or invalid.",
        403 => "On a platform: the key lacks the scope that the message names.",
        404 => "The resource does not exist or belongs to another tenant.",
        405 => "The path does not support this method.",
        409 => "The resource is in the wrong state.",
        413 => "The body is too large.",
        422 => "A value is unknown, invalid or out of bounds.",
        429 => "A quota or rate limit is reached.",
        502 => "On a platform: connection to the node was lost; the outcome is unknown.",
        503 => "Temporarily unavailable: the server is full or stopping, or a dependency is down.",
        507 => "No space is left.",
        _ => "The server failed. Its log has the reason under the request id.",
    }
}

#[cfg(test)]
mod tests;
