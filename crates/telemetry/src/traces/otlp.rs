//! Spans as OTLP's JSON: the protocol's messages by proto3's mapping, with ids in
//! hexadecimal and 64-bit numbers as text.

use serde_json::{Value as Json, json};

use super::{Context, Finished};
use crate::fields::{TRACEPARENT, Value};
use crate::start::Role;

/// What every span of this process has in common.
#[derive(Debug)]
pub(super) struct Resource(Json);

impl Resource {
    pub(super) fn new(role: Role, instance: Option<&str>) -> Self {
        let mut attributes = vec![
            attribute("service.name", &format!("belljar-{}", role.as_str()).as_str().into()),
            attribute("service.version", &env!("CARGO_PKG_VERSION").into()),
            attribute("process.pid", &u64::from(std::process::id()).into()),
        ];
        attributes.extend(instance.map(|name| attribute("service.instance.id", &name.into())));
        Self(json!({ "attributes": attributes }))
    }

    pub(super) fn request(&self, batch: &[Finished]) -> Vec<u8> {
        let spans: Vec<Json> = batch.iter().map(span).collect();
        let scope = json!({ "name": "belljar", "version": env!("CARGO_PKG_VERSION") });
        let scoped = json!([{ "scope": scope, "spans": spans }]);
        let request = json!({ "resourceSpans": [{ "resource": self.0, "scopeSpans": scoped }] });
        request.to_string().into_bytes()
    }
}

fn span(finished: &Finished) -> Json {
    let Finished { name, context, parent, links, is_client, start, end, fields } = finished;
    let ours = fields.0.iter().filter(|(name, _)| !matches!(*name, TRACEPARENT | "trace_id"));
    let attributes: Vec<Json> =
        ours.map(|(name, value)| attribute(attribute_name(name), value)).collect();
    let mut span = json!({
        "traceId": context.trace_hex(),
        "spanId": format!("{:016x}", context.span),
        "name": name,
        "kind": kind(name, *is_client),
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": end.max(start).to_string(),
        "attributes": attributes,
        "flags": u8::from(context.sampled),
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    if !links.is_empty() {
        span["links"] = links.iter().map(link).collect();
    }
    if let Some(error) = fields.text("error") {
        span["status"] = json!({ "code": 2, "message": error });
    }
    span
}

fn link(to: &Context) -> Json {
    json!({ "traceId": to.trace_hex(), "spanId": format!("{:016x}", to.span) })
}

/// Server, client, or neither.
fn kind(name: &str, is_client: bool) -> u8 {
    match name {
        "request" => 2,
        _ if is_client => 3,
        _ => 1,
    }
}

/// What the conventions of OpenTelemetry have a name for is called so.
fn attribute_name(field: &str) -> &str {
    match field {
        "method" => "http.request.method",
        "route" => "http.route",
        "status" => "http.response.status_code",
        "host" => "server.address",
        "port" => "server.port",
        "error" => "error.type",
        "tenant" => "belljar.tenant",
        "sandbox" => "belljar.sandbox",
        "run" => "belljar.run",
        "turn" => "belljar.turn",
        "call" => "belljar.call",
        "attempt" => "belljar.attempt",
        "node" => "belljar.node",
        "outcome" => "belljar.outcome",
        other => other,
    }
}

fn attribute(name: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Int(number) => json!({ "intValue": number.to_string() }),
        Value::Float(number) => json!({ "doubleValue": number }),
        Value::Bool(yes) => json!({ "boolValue": yes }),
        Value::List(texts) => {
            let texts: Vec<Json> =
                texts.iter().map(|text| json!({ "stringValue": text })).collect();
            json!({ "arrayValue": { "values": texts } })
        }
    };
    json!({ "key": name, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    #[test]
    fn a_span_is_written_as_the_protocol_says() {
        let context =
            Context::parse("00-0af7651916cd43dd8448eb211c80319c-00000000000000a1-01").unwrap();
        let fields = vec![
            ("traceparent", Value::from("x")),
            ("route", Value::from("/v1/sandboxes")),
            ("status", Value::Int(500)),
            ("error", Value::from("internal")),
            ("gen_ai.response.finish_reasons", Value::List(vec!["stop".to_owned()])),
        ];
        let span = span(&Finished {
            name: "request".into(),
            context,
            parent: Some(2),
            links: vec![Context::known(0xb, 0xc, true)],
            is_client: false,
            start: 1_700_000_000_000_000_000,
            end: 1_700_000_000_000_000_005,
            fields: Fields(fields),
        });
        let want = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "00000000000000a1",
            "parentSpanId": "0000000000000002",
            "name": "request",
            "kind": 2,
            "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000000000000005",
            "flags": 1,
            "attributes": [
                { "key": "http.route", "value": { "stringValue": "/v1/sandboxes" } },
                { "key": "http.response.status_code", "value": { "intValue": "500" } },
                { "key": "error.type", "value": { "stringValue": "internal" } },
                { "key": "gen_ai.response.finish_reasons",
                  "value": { "arrayValue": { "values": [{ "stringValue": "stop" }] } } },
            ],
            "links": [{ "traceId": "0000000000000000000000000000000b", "spanId": "000000000000000c" }],
            "status": { "code": 2, "message": "internal" },
        });
        assert_eq!(span, want);
    }
}
