//! Output that is also written to a file: both must be the same, byte by byte.

use anyhow::ensure;
use belljar_domain::EndReason;
use belljar_node::{Capture, Command};
use serde_json::{Value, json};

use crate::attack::{Seen, verdict_in};
use crate::harness::files::{self, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::stage::{Ran, Stage};

/// A call that is over, as programs get to see it.
pub(super) fn document(ran: &Ran) -> Value {
    let text = |bytes: &[u8]| {
        let mut capture = Capture::new(4 << 20);
        capture.push(bytes);
        let kept = capture.finish();
        json!({ "text": kept.text(), "omitted": kept.omitted })
    };
    json!({ "stdout": text(&ran.stdout), "stderr": text(&ran.stderr), "end": ran.end })
}

/// The fields of an end, whatever was printed.
pub(super) fn has_fixed_fields(ran: &Ran) -> bool {
    let document = document(ran);
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
    };
    keys(&document) == ["end", "stderr", "stdout"]
        && keys(&document["end"]) == ["exit_code", "reason", "signal", "usage"]
}

/// Runs the payload and compares its output with the file that it wrote.
async fn compare(
    stage: &Stage,
    findings: &mut Findings,
    file: &str,
    args: &[&str],
    twin: &str,
) -> anyhow::Result<Ran> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, file, args).await?;
    findings.add(verdict_in(&ran.stderr)?);
    let written = files::download(&sandbox, twin.as_bytes(), LIMIT).await??;
    ensure!(!written.is_empty(), "nothing was written");
    findings.expect(written == ran.stdout, "output and file are the same", ran.stdout.len());
    // As JSON it is one text that comes back as it was, without control bytes.
    let written = document(&ran).to_string();
    let plain = written.bytes().all(|byte| byte >= b' ');
    findings.expect(plain, "its JSON has no control byte", "it has");
    let back: Value = serde_json::from_str(&written)?;
    findings.expect(back == document(&ran), "its JSON reads back", "it does not");
    findings.expect(
        has_fixed_fields(&ran),
        "its fields are fixed",
        &written[..200.min(written.len())],
    );
    let later = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
    findings.expect(later.end.reason == EndReason::Done, "later calls work", later.ending());
    Ok(ran)
}

pub(super) async fn bytes(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let ran = compare(&stage, &mut findings, "out/out_02.c", &[], "/tmp/out02.bin").await?;
    let text = document(&ran)["stdout"]["text"].as_str().unwrap_or_default().to_owned();
    // Characters that came in pieces are whole again; broken ones show as such.
    let whole = text.contains('€') && text.contains('\u{1d11e}') && text.ends_with('\u{fffd}');
    findings.expect(whole, "its text is whole", text.len());
    Ok(findings.seen())
}

pub(super) async fn escapes(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let ran = compare(&stage, &mut findings, "out/out_03.c", &[], "/tmp/out03.bin").await?;
    // What a failed attack prints of it, this program's own report included.
    let shown = ran.ending();
    let plain = !shown.contains(['\x1b', '\x07', '\u{9b}']);
    findings.expect(plain, "what is shown of it is escaped", "it is not");
    Ok(findings.seen())
}

pub(super) async fn frames(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let ran = compare(&stage, &mut findings, "out/out_04.c", &[], "/tmp/out04.bin").await?;
    let own = ran.end.reason == EndReason::Exit && ran.end.exit_code == Some(7);
    findings.expect(own, "only its status is believed", ran.ending());
    Ok(findings.seen())
}

pub(super) async fn json(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for mode in ["deep", "wide", "numbers", "keys", "strings"] {
        compare(&stage, &mut findings, "out/out_06.c", &[mode], "/tmp/out06.json").await?;
    }
    Ok(findings.seen())
}

pub(super) async fn documents(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let args = ["/tmp/out10"];
    compare(&stage, &mut findings, "out/out_10.c", &args, "/tmp/out10/twin.bin").await?;
    Ok(findings.seen())
}

pub(super) async fn instructions(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let ran = compare(&stage, &mut findings, "out/out_13.c", &[], "/tmp/out13.txt").await?;
    findings.expect(ran.end.reason == EndReason::Done, "nothing acts on it", ran.ending());
    Ok(findings.seen())
}
