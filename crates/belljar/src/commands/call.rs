//! What `run` and `exec` have in common: one call, its output and its end.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use belljar_domain::{End, Usage, User};
use belljar_node::{CallError, Captured, Command, Entry, EntryKind, Input, Listing, NetworkSigns};
use serde_json::{Map, Value, json};
use time::format_description::well_known::Rfc3339;

use crate::cli::{self, StdinMode};
use crate::limits;
use crate::output::{Printer, hinted};
use crate::relay::{self, Delivered, Sink};
use crate::session::Session;

/// Whether our own standard input is still there to be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardInput {
    Free,
    /// The script came from it.
    Taken,
}

/// The status of a program that wrote to a pipe which nobody reads.
const BROKEN_PIPE: u8 = 141;

/// Runs `command` and answers the exit status.
pub(crate) async fn run(
    session: &Session,
    mut command: Command,
    input: StandardInput,
    sandbox: &cli::Sandbox,
    options: &cli::Call,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let inherit = input == StandardInput::Free
        && match options.stdin {
            StdinMode::Auto => !io::stdin().is_terminal(),
            StdinMode::Inherit => true,
            StdinMode::None => false,
        };
    command.input = if inherit { Input::Stream } else { Input::Empty };
    let before = if options.json { changed(session).await } else { None };
    let program = String::from_utf8_lossy(command.argv.first().map_or(b"", |v| v)).into_owned();
    let call = session.sandbox.start(&command).await.map_err(|error| match &error {
        CallError::Refused { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            let template = &session.template.name;
            hinted(
                error,
                format!(
                    "check that the template `{template}` has `{program}`, and that --workdir \
                         exists"
                ),
            )
        }
        _ => error.into(),
    });
    let mut call = call.with_context(|| format!("cannot run `{program}`"))?;
    if inherit {
        relay::feed(call.writer());
    }
    let mut sink = match options.json {
        true => Sink::keep(usize::try_from(options.keep_output).unwrap_or(usize::MAX)),
        false => Sink::live(),
    };
    let mut signs = NetworkSigns::default();
    let end = relay::to_the_end(&mut call, &mut sink, &mut signs).await;
    let hint = (end.status() != 0).then(|| session.network_hint(&signs)).flatten();
    let delivered = sink.finish().await;
    let collected = session.collect(sandbox, &end, printer).await;
    let status = match delivered {
        Delivered::ReaderGone => return collected.map(|()| BROKEN_PIPE),
        Delivered::Whole => end.status(),
        Delivered::Kept { stdout, stderr } => {
            if collected.is_ok() {
                let mut document = document(session, &end, &stdout, &stderr, before).await;
                if let Some(message) = hint {
                    document["end"]["hint"] = json!({"code": "no_network", "message": message});
                }
                printer.document(&document)?;
            }
            end.status()
        }
    };
    if let Some((what, hint)) = limits::explain(&end, &session.limits) {
        printer.always(what);
        if let Some(hint) = hint {
            printer.always(format_args!("hint: {hint}"));
        }
    }
    if let Some(hint) = hint {
        printer.always(format_args!("hint: {hint}"));
    }
    collected.map(|()| status)
}

/// Files below the writable directories that are not the template's.
pub(super) async fn changed(session: &Session) -> Option<Listing> {
    let paths = session.writable();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    // A sandbox that is lost has no files any more.
    session.sandbox.changed(User::User, &paths).await.ok()
}

/// The one document that `--json` prints.
async fn document(
    session: &Session,
    end: &End,
    stdout: &Captured,
    stderr: &Captured,
    before: Option<Listing>,
) -> Value {
    let mut call = Map::new();
    stream(&mut call, "stdout", stdout);
    stream(&mut call, "stderr", stderr);
    let after = changed(session).await;
    let complete = after.as_ref().is_some_and(|listing| listing.complete);
    // The script and what was copied in are not the code's work.
    let ours = before.map_or_else(Vec::new, |listing| listing.entries);
    let after = after.map_or_else(Vec::new, |listing| listing.entries);
    let files: Vec<Value> = after.iter().filter(|entry| !ours.contains(entry)).map(file).collect();
    json!({
        "sandbox": session.sandbox.id().as_str(),
        "tier": session.tier.as_str(),
        "template": format!("{}@{}", session.template.name, session.template.version),
        "enforcement": session.enforcement.as_str(),
        // A process of its own: nothing of an earlier call is in its memory.
        "state": "fresh",
        "end": {
            "reason": end.reason.as_str(),
            "exit_code": end.exit_code,
            "signal": end.signal,
        },
        "usage": usage(&end.usage),
        "call": call,
        "files_changed": files,
        "files_changed_complete": complete,
    })
}

pub(super) fn usage(usage: &Usage) -> Value {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "wall_ms": millis(usage.wall),
        "cpu_ms": millis(usage.cpu),
        "peak_memory_bytes": usage.peak_memory_bytes,
        "written_bytes": usage.written_bytes,
        "output_bytes": usage.output_bytes,
    })
}

/// One stream's text; also its exact bytes when they are no text.
fn stream(call: &mut Map<String, Value>, name: &str, captured: &Captured) {
    call.insert(name.to_owned(), captured.text().into());
    call.insert(format!("{name}_truncated"), captured.is_truncated().into());
    call.insert(format!("{name}_omitted_bytes"), captured.omitted.into());
    let bytes = [captured.head.as_slice(), &captured.tail].concat();
    let whole = !captured.is_truncated() && std::str::from_utf8(&bytes).is_ok();
    let parts = str::from_utf8(&captured.head).is_ok() && str::from_utf8(&captured.tail).is_ok();
    if !whole && !parts {
        call.insert(format!("{name}_base64"), base64(&bytes).into());
        if captured.is_truncated() {
            // Where, in these bytes, the missing ones would be.
            call.insert(format!("{name}_omitted_at"), captured.head.len().into());
        }
    }
}

pub(super) fn file(entry: &Entry) -> Value {
    let kind = match entry.kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
        EntryKind::Device => "device",
    };
    let mut file = json!({
        "path": String::from_utf8_lossy(&entry.path),
        "kind": kind,
        "bytes": entry.size,
        "size": entry.size,
        "mode": format!("{:04o}", entry.mode),
        "modified": entry.modified_seconds,
    });
    let modified = time::OffsetDateTime::from_unix_timestamp(entry.modified_seconds).ok();
    if let Some(modified) = modified.and_then(|time| time.format(&Rfc3339).ok()) {
        file["modified_at"] = modified.into();
    }
    if let Some(target) = &entry.target {
        file["target"] = String::from_utf8_lossy(target).into();
    }
    file
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let known = digit <= chunk.len();
            let value = (group >> (18 - 6 * digit)) & 63;
            text.push(if known { char::from(ALPHABET[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_the_standard_says() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, want) in vectors {
            assert_eq!(base64(bytes.as_bytes()), want);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn text_needs_no_base64_and_bytes_do() {
        let captured = |head: &[u8], omitted, tail: &[u8]| Captured {
            head: head.to_vec(),
            omitted,
            tail: tail.to_vec(),
        };
        let fields = |captured: &Captured| {
            let mut call = Map::new();
            stream(&mut call, "stdout", captured);
            call
        };
        assert!(!fields(&captured(b"text", 0, b"")).contains_key("stdout_base64"));
        // A character may lie across the middle.
        assert!(!fields(&captured(b"\xc3", 0, b"\xa9")).contains_key("stdout_base64"));
        let cut = fields(&captured(b"\xff", 7, b"\xfe"));
        assert_eq!(cut["stdout_base64"], "//4=");
        assert_eq!(
            (&cut["stdout_omitted_at"], &cut["stdout_omitted_bytes"]),
            (&1.into(), &7.into())
        );
    }
}
