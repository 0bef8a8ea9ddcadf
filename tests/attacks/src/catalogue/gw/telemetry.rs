//! Telemetry of a sandbox that says it is another tenant's, or that is too much.

use belljar_domain::network::{Decision, Policy, Reason, Row};
use serde_json::json;

use super::super::net::{directly, served, works};
use super::own;
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::Script;
use crate::harness::stage::Stage;
use crate::harness::world::{Wish, World, mint};

const FORGED: &str = "forged-tenant";
const GENUINE: &str = "genuine-span";

/// A trace that claims to be another tenant's in each of its attributes.
fn forged(name: &str) -> String {
    let claim = json!([{ "key": name, "value": { "stringValue": FORGED } }]);
    let span = json!({ "name": GENUINE, "attributes": claim, "events": [{ "attributes": claim }] });
    json!({ "resourceSpans": [{
        "resource": { "attributes": claim },
        "scopeSpans": [{ "scope": { "attributes": claim }, "spans": [span] }],
    }] })
    .to_string()
}

/// The same in protobuf: a resource with the attribute, in two parts.
fn forged_protobuf() -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        [&[number << 3 | 2, length], bytes].concat()
    };
    let value = field(2, &field(1, FORGED.as_bytes()));
    let attribute = field(1, &[field(1, b"belljar.tenant"), value].concat());
    let resource = field(1, &attribute);
    let schema = field(3, GENUINE.as_bytes());
    field(1, &[resource.clone(), schema, resource].concat())
}

fn protobuf(token: &str, body: &[u8], length: usize) -> Vec<u8> {
    let head = format!(
        "POST /operations/telemetry/v1/traces HTTP/1.1\r\nhost: 127.0.0.1:3128\r\n\
         x-api-key: {token}\r\ncontent-type: application/x-protobuf\r\n\
         content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(super) async fn another_tenant(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let watch = vec![FORGED.to_owned(), GENUINE.to_owned()];
    let world = World::with(Wish { has_telemetry: true, watch, ..Wish::default() }).await?;
    let record = || world.web.record().all();
    let came =
        |text: &str| record().iter().filter(|one| one.watched.iter().any(|it| it == text)).count();
    if control {
        let naive = own("POST", "/v1/traces", "x", &forged("belljar.tenant"));
        let said = directly(&stage, &[Script::to("naive", world.at(80)).ask(naive)]).await?;
        return Ok(works(came(FORGED) > 0, "a collector believes what it is told", &said));
    }
    let sandbox = served(&stage, &world, Policy::default()).await?;
    let token = mint(&sandbox, &["telemetry"]).await?.token;
    let post = |body: &str| own("POST", "/operations/telemetry/v1/traces", &token, body);
    let names = ["belljar.tenant", "belljar_tenant", "Belljar.Tenant", "belljar.run"];
    let mut sent: Vec<Script> =
        names.iter().map(|name| Script::gateway(*name).ask(post(&forged(name)))).collect();
    let packed = forged_protobuf();
    sent.push(Script::gateway("protobuf").ask(protobuf(&token, &packed, packed.len())));
    let many = json!({ "resourceSpans": vec![json!({}); 257] }).to_string();
    let packed_type = post(&forged("belljar.tenant")).replacen(
        "content-type",
        "content-encoding: gzip\r\ncontent-type",
        1,
    );
    let refused = [
        Script::gateway("many").ask(post(&many)),
        Script::gateway("large").ask(protobuf(&token, b"", 5 << 20)),
        Script::gateway("packed").ask(packed_type),
        Script::gateway("group").ask(protobuf(&token, &[0x0b, 0x0c], 2)),
        Script::gateway("snake").ask(post(r#"{"resource_spans":[]}"#)),
    ];
    let (_, said) = stage.say(&sandbox, &sent).await?;
    let (_, turned_away) = stage.say(&sandbox, &refused).await?;
    let mut findings = Findings::default();
    findings.expect(came(GENUINE) == sent.len(), "what is genuine arrives", said.len());
    findings.expect(came(FORGED) == 0, "no forged tenant arrives", came(FORGED));
    for said in &turned_away {
        let is_refused = matches!(said.status(), 400 | 413) && said.reason() == "malformed";
        findings.expect(is_refused, "too much or unreadable is refused", said.brief());
    }
    let is_refusal =
        |row: &Row| row.decision == Decision::Denied && row.reason == Reason::Malformed;
    let rows = world.count(&sandbox, refused.len(), is_refusal).await;
    findings.expect(rows == refused.len(), "each refusal is a row", rows);
    Ok(findings.seen())
}
