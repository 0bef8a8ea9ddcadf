//! Asks for approvals on the terminal, where a command has a gateway of its own.
//!
//! Nothing else could decide: no server has these requests. Without a terminal they are denied.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};

use belljar_domain::approval::{ApprovalAction, ApprovalAnswer, ApprovalRequest, ToolCall};
use belljar_node::Gateway;
use rustix::termios::{QueueSelector, tcflush};

/// Digits that a human types to approve.
const CODE_DIGITS: usize = 4;

/// Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Asking(tokio::task::JoinHandle<()>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks for each request that waits, one after the other.
pub(crate) fn ask(gateway: &Gateway) -> Asking {
    let gateway = gateway.clone();
    Asking(tokio::spawn(async move {
        let mut changes = gateway.watch_approvals();
        let mut asked = HashSet::new();
        loop {
            let waiting = gateway.approvals();
            asked.retain(|id| waiting.iter().any(|one| &one.id == id));
            for pending in waiting {
                if !asked.insert(pending.id.clone()) {
                    continue;
                }
                let (request, id) = (pending.request, pending.id.clone());
                let asking = move || on_terminal(&request, &id);
                let answer = tokio::task::spawn_blocking(asking).await;
                let answer = answer.ok().and_then(Result::ok).unwrap_or_else(no_terminal);
                gateway.decide(&pending.id, answer);
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }))
}

/// Asks for the approval of a tool call of a run of this process.
pub(crate) async fn ask_for_call(tool: ToolCall) -> ApprovalAnswer {
    let asking = move || {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let id = tool.sha256.clone();
        put(&call_prompt("", &tool, digits(&id)), digits(&id), &terminal)
    };
    let answer = tokio::task::spawn_blocking(asking).await;
    answer.ok().and_then(Result::ok).unwrap_or_else(no_terminal)
}

fn no_terminal() -> ApprovalAnswer {
    ApprovalAnswer { is_approved: false, message: Some("no terminal to ask on".to_owned()) }
}

fn on_terminal(request: &ApprovalRequest, id: &str) -> io::Result<ApprovalAnswer> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    decide(request, id, &terminal)
}

fn decide(request: &ApprovalRequest, id: &str, terminal: &File) -> io::Result<ApprovalAnswer> {
    let code = code(request, id);
    put(&prompt(request, code), code, terminal)
}

/// Shows a question and reads the answer.
fn put(prompt: &str, code: &str, mut terminal: &File) -> io::Result<ApprovalAnswer> {
    // Keys that were pressed before the question are no answer to it.
    tcflush(terminal, QueueSelector::IFlush)?;
    terminal.write_all(prompt.as_bytes())?;
    terminal.flush()?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    Ok(ApprovalAnswer { is_approved: is_approval(&line, code), message: None })
}

fn prompt(request: &ApprovalRequest, code: &str) -> String {
    let ApprovalRequest { operation, repository, changes, tool, .. } = request;
    if let Some(tool) = tool {
        return call_prompt(operation, tool, code);
    }
    let mut prompt = format!("\n{}: {} wants approval:\n", shown(operation), shown(repository));
    for change in changes {
        prompt.push_str(&format!("  {}\n", shown(change)));
    }
    prompt.push_str(&format!("type {code} to approve, anything else to deny: "));
    prompt
}

fn call_prompt(operation: &str, tool: &ToolCall, code: &str) -> String {
    let from = if operation.is_empty() { String::new() } else { format!("{}: ", shown(operation)) };
    let mut prompt = format!("\n{from}a call of {} wants approval:\n", shown(&tool.tool));
    prompt.push_str(&format!("  {}\n", shown(&tool.input)));
    if tool.bytes > tool.input.len() as u64 {
        prompt.push_str(&format!("  (the beginning of {} bytes)\n", tool.bytes));
    }
    prompt.push_str(&format!("type {code} to approve, anything else to deny: "));
    prompt
}

fn digits(text: &str) -> &str {
    text.get(..CODE_DIGITS).unwrap_or(text)
}

/// The text that approves a request: the first digits of the new commit, or of the request's id.
fn code<'a>(request: &'a ApprovalRequest, id: &'a str) -> &'a str {
    let is_commit =
        |word: &&str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut changes = request.changes.iter().filter(|_| request.action == ApprovalAction::Push);
    let commit = changes.find_map(|change| change.rsplit(' ').next().filter(is_commit));
    digits(commit.unwrap_or(id))
}

/// Returns true if the answer is the code, which is never empty.
fn is_approval(line: &str, code: &str) -> bool {
    !code.is_empty() && line.trim().eq_ignore_ascii_case(code)
}

/// One line of text from a sandbox. Letters that move the cursor, begin a line, turn the direction
/// or are not seen are escaped.
fn shown(text: &str) -> String {
    let is_hidden = |letter: char| {
        letter.is_control()
            || matches!(
                letter,
                '\u{ad}'
                    | '\u{61c}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{feff}'
            )
    };
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_hidden(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use belljar_domain::SandboxId;
    use belljar_domain::network::Subject;

    use super::*;

    const ID: &str = "0123456789abcdef";

    fn request(action: ApprovalAction, change: &str) -> ApprovalRequest {
        let subject = Subject {
            tenant: "t".into(),
            sandbox: SandboxId::from_random([1; 16]),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let (operation, repository) = ("code".to_owned(), "a/b".to_owned());
        let changes = vec![change.to_owned()];
        ApprovalRequest { subject, operation, action, repository, changes, seconds: 60, tool: None }
    }

    #[test]
    fn only_the_code_approves() {
        let (old, new) = ("a".repeat(40), "beef".repeat(10));
        let push = request(ApprovalAction::Push, &format!("update a from {old} to {new}"));
        let asked = code(&push, ID);
        assert_eq!(asked, "beef");
        assert!(prompt(&push, asked).ends_with("type beef to approve, anything else to deny: "));
        assert!(is_approval("beef\n", asked) && is_approval(" BEEF\r\n", asked));
        for other in ["y\n", "yes\n", "\n", "", "bee\n", "beefy\n", "y\nbeef\n"] {
            assert!(!is_approval(other, asked), "{other:?}");
        }
    }

    #[test]
    fn requests_without_a_new_commit_have_the_code_of_their_id() {
        let deletion = format!("delete a (was {})", "b".repeat(40));
        assert_eq!(code(&request(ApprovalAction::Push, &deletion), ID), "0123");
        let title = format!("a into main: {}", "b".repeat(40));
        assert_eq!(code(&request(ApprovalAction::MergeRequest, &title), ID), "0123");
        assert!(!is_approval("\n", ""));
    }

    #[test]
    fn a_tool_call_is_shown_with_its_input() {
        let input = "{\"command\":\"rm -r data\u{1b}[2K\"}";
        let mut call = request(ApprovalAction::ToolCall, "");
        call.tool = Some(ToolCall::new("Bash", Some("toolu_1"), input, "00".repeat(32)));
        let shown = prompt(&call, code(&call, ID));
        assert!(shown.contains("code: a call of Bash wants approval:\n"), "{shown}");
        assert!(shown.contains("rm -r data\\u{1b}[2K"), "{shown}");
        assert!(shown.ends_with("type 0123 to approve, anything else to deny: "), "{shown}");
    }

    #[test]
    fn text_of_a_sandbox_does_not_steer_the_prompt() {
        let title = "a into main: x\napprove\t\u{1b}[2K\u{202e}y\u{2066}\u{200b}é";
        let shown = prompt(&request(ApprovalAction::MergeRequest, title), "0123");
        assert!(shown.contains(
            "  a into main: x\\u{a}approve\\u{9}\\u{1b}[2K\\u{202e}y\\u{2066}\\u{200b}é\n"
        ));
        assert_eq!(shown.lines().count(), 4);
    }
}
