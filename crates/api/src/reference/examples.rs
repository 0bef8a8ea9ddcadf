//! One request for each operation that takes a body, as a command to copy.

use super::{ORIGIN, escaped};

/// A body for each operation that takes JSON, by the operation's name.
const BODIES: &[(&str, &str)] = &[
    ("CreateSandbox", r#"{"template": "base", "timeout_seconds": 600, "metadata": {"job": "42"}}"#),
    ("ChangeSandbox", r#"{"timeout_seconds": 1200}"#),
    ("PauseSandbox", r#"{"keep": "memory"}"#),
    ("ResumeSandbox", r#"{"timeout_seconds": 600}"#),
    ("ForkSandbox", r#"{"count": 2, "timeout_seconds": 60}"#),
    ("RunCall", r#"{"argv": ["python3", "-c", "print(6 * 7)"], "timeout_ms": 10000}"#),
    ("SignalCall", r#"{"signal": 15}"#),
    ("WriteStdin", r#"{"data": "yes\n", "close": true}"#),
    ("CreateContext", r#"{"language": "python", "cwd": "/home/user"}"#),
    ("RunCell", r#"{"code": "x = 6 * 7\nx", "timeout_ms": 10000}"#),
    ("MakeDirectory", r#"{"path": "notes"}"#),
    ("MoveFile", r#"{"from": "notes/draft.md", "to": "notes/final.md"}"#),
    (
        "SetNetwork",
        r#"{"reach": {"allow": [{"host": "api.example.com", "ports": [443]}]}, "packages": true}"#,
    ),
    ("CreateToken", r#"{"operations": ["llm:chat"], "seconds": 300, "budget": {"requests": 20}}"#),
    ("CreateCheckpoint", r#"{"name": "trained", "keep": "memory"}"#),
    ("ForkCheckpoint", r#"{"timeout_seconds": 600}"#),
    (
        "CreateRun",
        r#"{"question": "Which region has the highest revenue?", "data": [{"name": "sales.csv", "content": "region,revenue\nnorth,9\nsouth,7\n"}], "budget": {"turns": 20}}"#,
    ),
    ("ChangeRun", r#"{"budget": {"turns": 50}}"#),
    ("SetRunBreakpoints", r#"{"turns": true}"#),
    ("TellRun", r#"{"text": "Leave out the year 2020."}"#),
    ("AnswerRun", r#"{"text": "Use euros."}"#),
    ("RetryRun", r#"{"budget": {"turns": 60}, "memory_bytes": 4294967296}"#),
    (
        "CreateWebhook",
        r#"{"url": "https://hooks.example.com/belljar", "kinds": ["run.ended", "run.waiting"]}"#,
    ),
    ("DecideApproval", r#"{"decision": "approve"}"#),
    (
        "CreateWorkflow",
        r#"{"definition": "name = \"count\"\n[steps.lines]\nkind = \"call\"\ncall = { script = \"seq 3 | wc -l\" }\n"}"#,
    ),
];

/// A file for each operation that takes bytes, and the query that it needs.
const FILES: &[(&str, &str, &str)] = &[
    ("WriteFile", "report.md", "?path=report.md"),
    ("CreateData", "sales.csv", ""),
    ("WriteCassette", "run.cassette", ""),
];

/// The command that asks for an operation, as HTML; none: it takes no body.
pub(super) fn command(operation: &str, method: &str, path: &str) -> Option<String> {
    let json = BODIES.iter().find(|(name, _)| *name == operation);
    let json = json.map(|(_, body)| (format!("-d '{body}'"), ""));
    let file = FILES.iter().find(|(name, ..)| *name == operation);
    let file = file.map(|(_, file, query)| (format!("--data-binary @{file}"), *query));
    let (body, query) = json.or(file)?;
    // A parameter of the path is a variable of the shell.
    let path = path.replace('{', "$").replace('}', "");
    let path: String = path
        .split('/')
        .map(|part| if part.starts_with('$') { part.to_uppercase() } else { part.to_owned() })
        .collect::<Vec<_>>()
        .join("/");
    let command = format!(
        "curl -X {method} \"{ORIGIN}{path}{query}\" \\\n  -H \"X-API-Key: $BELLJAR_API_KEY\" \\\n  {body}"
    );
    Some(escaped(&command))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::{Content, Operation};
    use crate::{
        approval, call, checkpoint, context, file, network, run, sandbox, webhook, workflow,
    };

    fn read<T: DeserializeOwned>(body: &str) -> Result<(), serde_json::Error> {
        serde_json::from_str::<T>(body).map(drop)
    }

    #[test]
    fn every_example_is_what_its_operation_reads() {
        for (name, body) in BODIES {
            let read = match *name {
                "CreateSandbox" => read::<sandbox::CreateSandbox>(body),
                "ChangeSandbox" => read::<sandbox::ChangeSandbox>(body),
                "PauseSandbox" => read::<sandbox::PauseSandbox>(body),
                "ResumeSandbox" => read::<sandbox::ResumeSandbox>(body),
                "ForkSandbox" => read::<sandbox::ForkSandbox>(body),
                "RunCall" => read::<call::RunCall>(body),
                "SignalCall" => read::<call::SignalCall>(body),
                "WriteStdin" => read::<call::WriteStdin>(body),
                "CreateContext" => read::<context::CreateContext>(body),
                "RunCell" => read::<context::RunCell>(body),
                "MakeDirectory" => read::<file::MakeDirectory>(body),
                "MoveFile" => read::<file::MoveFile>(body),
                "SetNetwork" => read::<network::Network>(body),
                "CreateToken" => read::<network::CreateToken>(body),
                "CreateCheckpoint" => read::<checkpoint::CreateCheckpoint>(body),
                "ForkCheckpoint" => read::<checkpoint::ForkCheckpoint>(body),
                "CreateRun" => read::<run::CreateRun>(body),
                "ChangeRun" => read::<run::ChangeRun>(body),
                "SetRunBreakpoints" => read::<run::RunBreakpoints>(body),
                "TellRun" => read::<run::TellRun>(body),
                "AnswerRun" => read::<run::AnswerRun>(body),
                "RetryRun" => read::<run::RetryRun>(body),
                "CreateWebhook" => read::<webhook::CreateWebhook>(body),
                "DecideApproval" => read::<approval::DecideApproval>(body),
                "CreateWorkflow" => read::<workflow::CreateWorkflow>(body),
                other => panic!("what does {other} read?"),
            };
            read.unwrap_or_else(|error| panic!("{name}: {error}: {body}"));
        }
    }

    #[test]
    fn every_operation_that_takes_a_body_has_an_example() {
        for operation in Operation::ALL {
            let route = operation.route();
            let command = command(operation.name(), route.method.as_str(), route.path);
            let takes_body = !matches!(route.content, Content::None);
            assert_eq!(command.is_some(), takes_body, "{}", operation.name());
        }
        let made = command("ForkSandbox", "POST", "/v1/sandboxes/{sandbox}/fork").unwrap();
        assert!(made.contains("/v1/sandboxes/$SANDBOX/fork&quot;"), "{made}");
    }
}
