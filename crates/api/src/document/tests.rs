use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn the_document_in_the_repository_is_the_one_that_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi.json");
    let mut text = serde_json::to_string_pretty(&document()).unwrap();
    text.push('\n');
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == text,
        "openapi.json is not what the types say; if that is meant, run this test with \
         BELLJAR_BLESS=1 and look at the difference"
    );
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "only {} references", found.len());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(reference) if name == "$ref" => drop(found.insert(reference.to_owned())),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_request_body_refuses_unknown_fields() {
    let document = document();
    let mut bodies = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let Some(reference) = schema["$ref"].as_str() else { continue };
            let schema = document.pointer(&reference[1..]).unwrap();
            assert_eq!(schema["additionalProperties"], json!(false), "{method} {path}");
            bodies += 1;
        }
    }
    assert!(bodies > 10, "only {bodies} bodies");
}

#[test]
fn every_operation_has_a_path_of_its_own() {
    let mut seen = BTreeSet::new();
    for route in Operation::ALL.iter().map(|operation| operation.route()) {
        assert!(seen.insert((route.path, route.method.as_str())), "{} twice", route.path);
        assert!(TAGS.iter().any(|(name, _)| *name == route.tag), "{}", route.tag);
        for name in route.parameters() {
            assert!(!parameter(name).is_empty(), "{name}");
        }
    }
}

#[test]
fn whoever_has_a_sandboxs_token_can_name_that_sandbox_alone() {
    let inside = Operation::ALL.iter().map(|operation| operation.route());
    for route in inside.filter(Route::is_inside) {
        assert!(route.path.starts_with("/v1/sandboxes/{sandbox}/"), "{}", route.path);
        assert!(route.access == Access::Key, "{}", route.path);
        for name in route.parameters() {
            assert!(["sandbox", "call", "context"].contains(&name), "{}", route.path);
        }
    }
}

#[test]
fn only_these_need_no_key() {
    let public: Vec<_> = Operation::ALL
        .iter()
        .map(|operation| operation.route())
        .filter(|route| route.access == Access::Public)
        .map(|route| route.path)
        .collect();
    assert_eq!(public, ["/v1/health", "/v1/ready", "/v1/openapi.json", "/docs"]);
}
