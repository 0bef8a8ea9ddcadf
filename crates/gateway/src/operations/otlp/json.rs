//! OTLP in JSON. The body is written anew, so that the collector reads what was read here.

use serde_json::{Map, Value as Json, json};

use super::{Attribute, MAX_RESOURCES, Malformed, Signal, Value, is_reserved};

/// Values of one body: each member and each element. In memory a value takes many times its
/// bytes, an object with one member some 700.
pub(super) const MAX_VALUES: usize = 1 << 15;

/// The request, with our attributes in each resource and nowhere else.
pub(super) fn attributed(
    signal: Signal,
    request: &[u8],
    own: &[Attribute],
) -> Result<Vec<u8>, Malformed> {
    if values(request) > MAX_VALUES {
        return Err(Malformed::Values);
    }
    let mut body: Json = serde_json::from_slice(request).map_err(|_| Malformed::Json)?;
    let (resources, scopes) = signal.members();
    let top = object(&mut body)?;
    has_only(top, &[resources])?;
    if let Some(list) = top.get_mut(resources) {
        let list = list.as_array_mut().ok_or(Malformed::Json)?;
        if list.len() > MAX_RESOURCES {
            return Err(Malformed::Resources);
        }
        for one in list {
            strip(one)?;
            let one = object(one)?;
            has_only(one, &["resource", scopes, "schemaUrl"])?;
            let resource = object(one.entry("resource").or_insert_with(|| json!({})))?;
            has_only(resource, &["attributes", "droppedAttributesCount", "entityRefs"])?;
            let attributes = resource.entry("attributes").or_insert_with(|| json!([]));
            let attributes = attributes.as_array_mut().ok_or(Malformed::Json)?;
            attributes.extend(own.iter().map(shown));
        }
    }
    serde_json::to_vec(&body).map_err(|_| Malformed::Json)
}

/// No fewer than the members and elements in a text: what separates or opens them, outside of
/// strings.
fn values(text: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

fn object(value: &mut Json) -> Result<&mut Map<String, Json>, Malformed> {
    value.as_object_mut().ok_or(Malformed::Json)
}

fn has_only(object: &Map<String, Json>, known: &[&str]) -> Result<(), Malformed> {
    let is_known = |key: &String| known.contains(&key.as_str());
    if object.keys().all(is_known) { Ok(()) } else { Err(Malformed::Field) }
}

/// Takes attributes with names of ours out, at every depth. The parser lets none be deeper than
/// 128.
fn strip(value: &mut Json) -> Result<(), Malformed> {
    match value {
        Json::Array(all) => all.iter_mut().try_for_each(strip),
        Json::Object(members) => {
            for (name, value) in members {
                if has_attributes(name) {
                    let all = value.as_array_mut().ok_or(Malformed::Json)?;
                    let mut kept = Vec::with_capacity(all.len());
                    for one in all.drain(..) {
                        let pair = one.as_object().ok_or(Malformed::Json)?;
                        // A reader that takes `Key` for `key` would find another name.
                        has_only(pair, &["key", "value"])?;
                        let key = pair.get("key").and_then(Json::as_str).ok_or(Malformed::Json)?;
                        if !is_reserved(key) {
                            kept.push(one);
                        }
                    }
                    *all = kept;
                }
                strip(value)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Both spellings of protobuf's mapping: `filteredAttributes` and `filtered_attributes`.
fn has_attributes(member: &str) -> bool {
    let member = member.to_ascii_lowercase();
    member.ends_with("attributes") || member == "metadata"
}

fn shown(attribute: &Attribute) -> Json {
    let value = match &attribute.value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": attribute.name, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<Attribute> {
        vec![
            Attribute { name: "belljar.tenant", value: Value::Text("a".into()) },
            Attribute { name: "belljar.turn", value: Value::Number(3) },
        ]
    }

    fn of(signal: Signal, body: &Json) -> Result<Json, Malformed> {
        let bytes = attributed(signal, body.to_string().as_bytes(), &own())?;
        Ok(serde_json::from_slice(&bytes).unwrap())
    }

    #[test]
    fn each_resource_has_our_attributes_and_no_forged_ones() {
        let forged = json!({ "key": "belljar.tenant", "value": { "stringValue": "b" } });
        let kept = json!({ "key": "x", "value": { "intValue": "1" } });
        let body = json!({ "resourceMetrics": [
            { "resource": { "attributes": [forged, kept] }, "scopeMetrics": [{
                "scope": { "attributes": [forged] },
                "metrics": [{ "name": "m", "metadata": [forged], "sum": { "dataPoints": [{
                    "attributes": [forged, kept],
                    "exemplars": [{ "filteredAttributes": [forged] }],
                }] } }],
            }] },
            { "scopeMetrics": [] },
        ] });
        let got = of(Signal::Metrics, &body).unwrap();
        assert!(!got.to_string().contains(r#""b""#), "{got}");
        let ours: Vec<Json> = own().iter().map(shown).collect();
        let first = &got["resourceMetrics"][0]["resource"]["attributes"];
        assert_eq!(*first, json!([kept, ours[0], ours[1]]));
        assert_eq!(got["resourceMetrics"][1]["resource"]["attributes"], json!(ours));
        let point =
            &got["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["dataPoints"];
        assert_eq!(point[0]["attributes"], json!([kept]));
    }

    /// A request with these attributes far below.
    fn in_link(attributes: Json) -> Json {
        let span = json!({ "links": [{ "attributes": attributes }] });
        json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] })
    }

    #[test]
    fn the_usual_batch_of_an_exporter_fits() {
        let attribute = json!({ "key": "http.route", "value": { "stringValue": "/" } });
        let span = json!({
            "traceId": "0", "spanId": "0", "parentSpanId": "0", "flags": 257, "name": "get",
            "kind": 2, "startTimeUnixNano": "0", "endTimeUnixNano": "1", "status": {},
            "droppedAttributesCount": 0, "droppedEventsCount": 0, "droppedLinksCount": 0,
            "events": [], "links": [], "attributes": vec![attribute; 10],
        });
        let spans = vec![span; 512];
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
        assert!(of(Signal::Traces, &body).is_ok());
    }

    #[test]
    fn other_bodies_are_refused() {
        for (body, why) in [
            (json!([]), Malformed::Json),
            (json!({ "resourceSpans": {} }), Malformed::Json),
            (json!({ "resourceLogs": [] }), Malformed::Field),
            (json!({ "resource_spans": [] }), Malformed::Field),
            (json!({ "resourceSpans": [{ "Resource": {} }] }), Malformed::Field),
            (json!({ "resourceSpans": [{ "resource": { "Attributes": [] } }] }), Malformed::Field),
            (json!({ "resourceSpans": [{ "resource": null }] }), Malformed::Json),
            (json!({ "resourceSpans": [{ "resource": { "attributes": [1] } }] }), Malformed::Json),
            (json!({ "resourceSpans": vec![json!({}); 257] }), Malformed::Resources),
            (in_link(json!([{ "key": "x", "Key": "belljar.tenant" }])), Malformed::Field),
            (in_link(json!([{ "key": "x", "value": {}, "keyRef": 1 }])), Malformed::Field),
            (in_link(json!({ "key": "belljar.tenant" })), Malformed::Json),
            (in_link(json!("x")), Malformed::Json),
            (in_link(Json::Null), Malformed::Json),
        ] {
            assert_eq!(of(Signal::Traces, &body), Err(why), "{body}");
        }
        let many = format!(r#"{{"resourceSpans":[{}]}}"#, vec!["[]"; MAX_VALUES].join(","));
        assert_eq!(attributed(Signal::Traces, many.as_bytes(), &own()), Err(Malformed::Values));
        assert_eq!(attributed(Signal::Traces, b"{", &own()), Err(Malformed::Json));
        assert_eq!(values(br#"{"a,[\"":1}"#), 1);
        assert_eq!(values(br#"[{"a":1},{"b":[2,3]},{}]"#), 8);
        assert_eq!(of(Signal::Traces, &json!({})), Ok(json!({})));
    }
}
