//! Every route there is, as requests.

use anyhow::{Context as _, ensure};
use belljar_api::{Access, Content, Operation};
use serde_json::{Value, json};

use crate::world::Belongings;

/// A request that would do something if it were allowed.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) method: String,
    /// With parameters as `{name}`.
    pub(crate) path: String,
    pub(crate) body: String,
    /// Whether it needs a key.
    pub(crate) keyed: bool,
}

impl Sample {
    /// The path, naming what belongs to somebody.
    pub(crate) fn at(&self, of: &Belongings) -> String {
        self.path
            .replace("{sandbox}", &of.sandbox)
            .replace("{call}", &of.call)
            .replace("{context}", &of.context)
            .replace("{checkpoint}", &of.checkpoint)
            .replace("{template}", &of.template)
            .replace("{run}", &of.run)
            .replace("{data}", &of.data)
            .replace("{webhook}", &of.webhook)
            .replace("{approval}", &format!("{}.0000000000000000", of.sandbox))
            .replace("{workflow}", &of.workflow)
            .replace("{file}", "result.md")
            .replace("{turn}", "1")
            .replace("{id}", self.owned(of))
            .replace("{name}", self.owned(of))
            .replace("{build}", &of.build)
            .replace("{hash}", &"0".repeat(64))
    }

    /// What `{id}` or `{name}` means on the E2B surface.
    fn owned<'a>(&self, of: &'a Belongings) -> &'a str {
        let about = |noun: &str| self.path.contains(noun);
        match () {
            () if about("/sandboxes") => &of.sandbox,
            () if about("/volumes") => &of.volume,
            () if about("/secrets") => &of.secret,
            () => &of.template,
        }
    }

    pub(crate) fn names_something(&self) -> bool {
        self.path.contains('{')
    }
}

/// Every operation of our own API, with a request that fits.
pub(crate) fn own() -> Vec<(Operation, Sample)> {
    let samples = Operation::ALL.iter().map(|&operation| {
        let route = operation.route();
        let query = query(operation);
        let sample = Sample {
            name: operation.name().to_owned(),
            method: route.method.as_str().to_owned(),
            path: format!("{}{query}", route.path),
            body: match route.content {
                Content::None => String::new(),
                Content::Json(_) => body(operation).to_string(),
                Content::Bytes => "written".to_owned(),
            },
            keyed: route.access == Access::Key,
        };
        (operation, sample)
    });
    samples.collect()
}

/// Pages that are not of the API.
pub(crate) fn pages() -> Vec<Sample> {
    vec![Sample {
        name: "Console".to_owned(),
        method: "GET".to_owned(),
        path: "/console".to_owned(),
        body: String::new(),
        keyed: false,
    }]
}

fn query(operation: Operation) -> &'static str {
    match operation {
        Operation::ReadFile
        | Operation::WriteFile
        | Operation::StatFile
        | Operation::DeleteFile => "?path=/tmp/secret",
        Operation::ListFiles => "?path=/tmp",
        _ => "",
    }
}

/// A body that is accepted where it may be sent.
pub(crate) fn body(operation: Operation) -> Value {
    match operation {
        Operation::ChangeSandbox => json!({ "timeout_seconds": 60 }),
        Operation::RunCall => json!({ "script": "cat /tmp/secret" }),
        Operation::SetNetwork => json!({ "reach": "open" }),
        Operation::WriteStdin => json!({ "data": "hello" }),
        Operation::SignalCall => json!({ "signal": 15 }),
        Operation::RunCell => json!({ "code": "open('/tmp/secret').read()" }),
        Operation::MakeDirectory => json!({ "path": "/tmp/made" }),
        Operation::CreateRun => json!({ "question": "How much is it?" }),
        Operation::TellRun | Operation::AnswerRun => json!({ "text": "Mind the gap." }),
        Operation::SetRunBreakpoints => json!({ "turns": true }),
        Operation::CreateWebhook => {
            json!({ "url": "https://hooks.invalid/", "kinds": ["run.waiting"] })
        }
        Operation::DecideApproval => json!({ "decision": "approve" }),
        Operation::CreateWorkflow => json!({
            "definition": "name = \"one\"\n[steps.one]\nkind = \"call\"\ncall = { script = \"true\" }",
        }),
        Operation::ChangeRun => json!({ "budget": { "turns": 3 } }),
        Operation::MoveFile => json!({ "from": "/tmp/secret", "to": "/tmp/moved" }),
        _ => json!({}),
    }
}

/// Routes of the E2B surface, as its source lists them.
pub(crate) fn e2b() -> anyhow::Result<Vec<Sample>> {
    let source = include_str!("../../../crates/e2b/src/control.rs");
    let mut all = Vec::new();
    for line in source.split(".route(").skip(1) {
        let mut quoted = line.split('"');
        let path = quoted.nth(1).context("a route without a path")?;
        let rest = line.split("\n        .").next().unwrap_or(line);
        for method in ["get", "post", "put", "patch", "delete"] {
            if rest.contains(&format!("{method}(")) {
                all.push(Sample {
                    name: format!("E2B {method} {path}"),
                    method: method.to_uppercase(),
                    path: path.to_owned(),
                    body: e2b_body(path),
                    keyed: !PUBLIC.contains(&path),
                });
            }
        }
    }
    ensure!(all.len() > 20, "the source of the E2B surface is not understood any more");
    Ok(all)
}

/// A body that is accepted where it may be sent.
fn e2b_body(path: &str) -> String {
    let body = match path.rsplit('/').next().unwrap_or_default() {
        "timeout" | "connect" | "resume" => json!({ "timeout": 60 }),
        "refreshes" => json!({ "duration": 10 }),
        "{build}" => json!({ "fromTemplate": "base", "steps": [] }),
        "{name}" => json!({ "value": "stolen" }),
        "sandboxes" => json!({ "templateID": "base" }),
        "templates" | "volumes" | "secrets" => json!({ "name": "of-mine", "value": "a secret" }),
        "tags" => json!({ "target": "of-mine:default", "name": "of-mine", "tags": ["x"] }),
        _ => json!({}),
    };
    body.to_string()
}

/// What needs no key: whether the server is well, and links that are keys
/// themselves. This list may only shrink.
const PUBLIC: [&str; 2] = ["/health", "/template-files/{token}"];
