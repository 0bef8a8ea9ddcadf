//! The network of a run: what its model is told of it, and what the gateway refused.

use std::fmt::Write as _;

use belljar_api::network::{Connection, Decision, Kind};
use belljar_domain::is_operation_name;
use belljar_domain::network::{Bytes, Reach, Rule};
use belljar_journal::event::{CallRef, NetworkAccess, NetworkRefusal, NetworkUsed};

/// The reasons for which the gateway refuses: every one that this version knows.
pub(crate) const REASONS: &[&str] = &[
    "branch",
    "budget",
    "bytes_spent",
    "deletion",
    "denied_block",
    "denied_host",
    "force",
    "foreign",
    "malformed",
    "method",
    "name_mismatch",
    "no_name",
    "no_network",
    "not_allowed",
    "not_approved",
    "not_recorded",
    "path",
    "policy_changed",
    "port",
    "private",
    "repository",
    "scope",
    "token",
    "too_many",
    "unknown_price",
];

/// The reason of a request that a human approved.
const APPROVED: &str = "approved";
/// The part of a path before the name of an operation.
const OPERATIONS: &str = "/operations/";
/// Hosts that a prompt lists.
const MAX_LISTED_HOSTS: usize = 50;
/// Hosts, and different refusals, that an event has of one call.
const MAX_HOSTS: usize = 32;
const MAX_REFUSALS: usize = 32;
/// Refusals that a call's result tells.
const MAX_TOLD: usize = 8;

/// Says what hosts a run reaches.
pub(crate) fn hosts(access: &NetworkAccess) -> String {
    let NetworkAccess { policy, packages, .. } = access;
    let mut text = match &policy.reach {
        Reach::Open => "All public hosts can be reached. Private addresses cannot.".to_owned(),
        Reach::Allow(rules) if !rules.is_empty() => {
            format!("Only these hosts can be reached: {}.", listed(rules))
        }
        Reach::None | Reach::Allow(_) if *packages => {
            "No host can be reached but package indexes.".to_owned()
        }
        Reach::None | Reach::Allow(_) => {
            "No host can be reached: nothing can be installed or downloaded.".to_owned()
        }
    };
    if *packages {
        text.push_str(" Packages can be installed: `pip` finds its index.");
    }
    let blocks = policy.deny.iter().map(|block| format!("`{block}`"));
    let denied: Vec<String> =
        policy.deny_hosts.iter().map(|host| format!("`{host}`")).chain(blocks).collect();
    if !denied.is_empty() {
        let denied = &denied[..denied.len().min(MAX_LISTED_HOSTS)];
        let _ = write!(text, " Never reached: {}.", denied.join(", "));
    }
    if policy.tape.is_sealed() {
        text.push_str(" Responses come from a recording: a request that is not on it is refused.");
    }
    text
}

fn listed(rules: &[Rule]) -> String {
    let mut names: Vec<String> = rules.iter().take(MAX_LISTED_HOSTS).map(rule).collect();
    if rules.len() > names.len() {
        names.push(format!("and {} more", rules.len() - names.len()));
    }
    names.join(", ")
}

fn rule(rule: &Rule) -> String {
    let ports: Vec<String> = rule.ports.iter().map(ToString::to_string).collect();
    let limits = [("port", ports), ("method", rule.methods.clone()), ("path", rule.paths.clone())];
    let limits: Vec<String> = limits
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name} {}", values.join(" or ")))
        .collect();
    match limits.is_empty() {
        true => format!("`{}`", rule.host),
        false => format!("`{}` ({})", rule.host, limits.join("; ")),
    }
}

/// Sums the rows of a call up; none: there were no rows.
pub(crate) fn used(call: &CallRef, rows: &[Connection]) -> Option<NetworkUsed> {
    let last = rows.last()?;
    let mut used = NetworkUsed {
        call: call.clone(),
        connections: 0,
        refused: 0,
        bytes: Bytes::default(),
        hosts: Vec::new(),
        refusals: Vec::new(),
        approved: 0,
        through: Some(last.sequence),
    };
    // A name that is looked up is part of a connection, which has a row of its own.
    for row in rows.iter().filter(|row| row.kind != Kind::Lookup) {
        used.connections += 1;
        used.bytes.out = used.bytes.out.saturating_add(row.bytes.out);
        used.bytes.into = used.bytes.into.saturating_add(row.bytes.into);
        // The host of an operation is the operator's.
        let host = row.host.as_ref().filter(|_| row.kind != Kind::Operation);
        if let Some(host) = host.filter(|host| !used.hosts.contains(host))
            && used.hosts.len() < MAX_HOSTS
        {
            used.hosts.push(host.clone());
        }
        used.approved += u64::from(row.reason == APPROVED);
        if row.decision == Decision::Denied {
            used.refused += 1;
            count(&mut used.refusals, refusal(row));
        }
    }
    Some(used)
}

fn refusal(row: &Connection) -> NetworkRefusal {
    let is_operation = row.kind == Kind::Operation;
    let named = row.path.as_deref().filter(|_| is_operation);
    let named = named.and_then(|path| path.strip_prefix(OPERATIONS)?.split('/').next());
    let named = named.filter(|name| is_operation_name(name)).map(str::to_owned);
    NetworkRefusal {
        reason: row.reason.clone(),
        operation: row.operation.clone().or(named),
        host: row.host.clone().filter(|_| !is_operation),
        count: 1,
    }
}

fn count(refusals: &mut Vec<NetworkRefusal>, new: NetworkRefusal) {
    let is_same = |known: &&mut NetworkRefusal| {
        (&known.reason, &known.operation, &known.host) == (&new.reason, &new.operation, &new.host)
    };
    if let Some(known) = refusals.iter_mut().find(is_same) {
        known.count += 1;
    } else if refusals.len() < MAX_REFUSALS {
        refusals.push(new);
    } else if let Some(known) = refusals.iter_mut().find(|known| known.reason == new.reason) {
        // Too many hosts to name each: their reason still counts.
        known.count += 1;
    } else {
        refusals.push(new);
    }
}

/// Lines for the model; none: nothing was refused.
pub(crate) fn told(used: &NetworkUsed, access: &NetworkAccess) -> Option<String> {
    if used.refusals.is_empty() {
        return None;
    }
    let mut lines: Vec<String> =
        used.refusals.iter().take(MAX_TOLD).map(|refusal| line(refusal, access)).collect();
    let more: u64 = used.refusals.iter().skip(MAX_TOLD).map(|refusal| refusal.count).sum();
    if more > 0 {
        lines.push(format!("[refused by the gateway: {more} more]"));
    }
    Some(lines.join("\n"))
}

fn line(refusal: &NetworkRefusal, access: &NetworkAccess) -> String {
    let subject = match (&refusal.operation, &refusal.host) {
        (Some(operation), _) => format!("operation `{operation}`"),
        (None, Some(host)) => format!("host {host}"),
        (None, None) => "a request".to_owned(),
    };
    let times = match refusal.count {
        1 => String::new(),
        count => format!(", {count} times"),
    };
    let reason = &refusal.reason;
    format!("[refused by the gateway: {subject} ({reason}){times}. {}]", next_step(refusal, access))
}

fn next_step(refusal: &NetworkRefusal, access: &NetworkAccess) -> String {
    let is_own = |operation: &String| access.operations.contains(operation);
    let step = match refusal.reason.as_str() {
        "scope" if refusal.operation.as_ref().is_some_and(is_own) => {
            "Use a model that this operation allows."
        }
        "scope" if access.operations.is_empty() => "This run may call no operation; do without.",
        "scope" => {
            let names = access.operations.join(", ");
            return format!("This run may call only: {names}. Use these, or do without.");
        }
        "not_allowed" | "no_network" => {
            "This run may reach only the hosts named at its start; do without this one."
        }
        "budget" => "The budget is used up; ask for less at once, or do without.",
        "token" => "Read the token from $BELLJAR_TOKEN_FILE again for each request.",
        "method" => "Use another method, or do without.",
        "path" => "Use a path that is allowed, or do without.",
        "repository" => "Use a repository that is allowed, or do without.",
        "branch" => "Push another branch, as the error says, and open a merge request.",
        "force" => "Add commits on top of the branch, or push a new branch.",
        "deletion" => "Leave the branch, or do without.",
        "not_approved" => "A human did not approve it; change it, or do without.",
        "port" => "Use another port, or do without.",
        "too_many" => "Send fewer requests at once.",
        "bytes_spent" => "The run's bytes are used up; do without the network.",
        "private" | "denied_block" | "denied_host" => "It is never reachable; do without.",
        "unknown_price" => "Use another model.",
        "not_recorded" => "It is not on the recording; repeat the recorded request, or do without.",
        "foreign" => "Send it to the address in $BELLJAR_GATEWAY.",
        "malformed" | "name_mismatch" | "no_name" => "Correct the request.",
        _ => "Do without.",
    };
    step.to_owned()
}

#[cfg(test)]
mod tests {
    use belljar_domain::network::Policy;
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;

    fn row(more: Value) -> Connection {
        let mut row = json!({
            "sequence": 1, "sandbox": "s", "kind": "operation", "decision": "denied",
            "reason": "scope", "bytes": { "out": 10, "in": 20 }, "began": 0, "micros": 0,
        });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    }

    fn access() -> NetworkAccess {
        NetworkAccess { operations: vec!["echo".into()], ..NetworkAccess::default() }
    }

    fn call() -> CallRef {
        CallRef { turn: 1, id: "c".into() }
    }

    #[test]
    fn refusals_are_summed_and_told_with_the_next_step() {
        let rows = [
            row(json!({ "path": "/operations/admin/x" })),
            row(json!({ "path": "/operations/admin", "sequence": 2 })),
            row(json!({ "operation": "echo", "reason": "budget", "host": "internal.example" })),
            row(json!({ "operation": "echo", "decision": "allowed", "reason": "operation" })),
            row(json!({ "kind": "lookup", "reason": "private", "host": "a.example" })),
            row(json!({ "kind": "connection", "reason": "private", "host": "a.example" })),
            row(json!({ "path": "/operations/a%20b/", "reason": "token", "sequence": 9 })),
        ];
        let used = used(&call(), &rows).unwrap();
        assert_eq!((used.connections, used.refused, used.through), (6, 5, Some(9)));
        assert_eq!(used.hosts, ["a.example"], "an operation's upstream is not told");
        assert_eq!((used.bytes.out, used.bytes.into), (60, 120));
        expect![[r"
            [refused by the gateway: operation `admin` (scope), 2 times. This run may call only: echo. Use these, or do without.]
            [refused by the gateway: operation `echo` (budget). The budget is used up; ask for less at once, or do without.]
            [refused by the gateway: host a.example (private). It is never reachable; do without.]
            [refused by the gateway: a request (token). Read the token from $BELLJAR_TOKEN_FILE again for each request.]"]]
        .assert_eq(&told(&used, &access()).unwrap());
    }

    #[test]
    fn calls_without_refusals_are_told_nothing() {
        assert_eq!(used(&call(), &[]), None);
        let fine = [row(json!({ "decision": "allowed", "reason": "operation" }))];
        let used = used(&call(), &fine).unwrap();
        assert_eq!((used.refused, told(&used, &access())), (0, None));
        assert_eq!(used.approved, 0);
    }

    #[test]
    fn approvals_are_counted_and_denials_are_told() {
        let rows = [
            row(json!({ "operation": "code", "decision": "allowed", "reason": "approved" })),
            row(json!({ "operation": "code", "reason": "not_approved", "sequence": 2 })),
            row(json!({ "operation": "code", "reason": "branch", "sequence": 3 })),
        ];
        let used = used(&call(), &rows).unwrap();
        assert_eq!((used.approved, used.refused), (1, 2));
        expect![[r"
            [refused by the gateway: operation `code` (not_approved). A human did not approve it; change it, or do without.]
            [refused by the gateway: operation `code` (branch). Push another branch, as the error says, and open a merge request.]"]]
        .assert_eq(&told(&used, &access()).unwrap());
    }

    #[test]
    fn a_scan_of_many_hosts_is_bounded_and_counted_whole() {
        let host = |n: u64| {
            let host = format!("h{n}.example");
            let (kind, reason) = ("connection", "not_allowed");
            row(json!({ "kind": kind, "reason": reason, "host": host, "sequence": n }))
        };
        let rows: Vec<_> = (1..=100).map(host).collect();
        let used = used(&call(), &rows).unwrap();
        assert_eq!((used.refused, used.hosts.len()), (100, MAX_HOSTS));
        assert_eq!(used.refusals.len(), MAX_REFUSALS);
        assert_eq!(used.refusals.iter().map(|refusal| refusal.count).sum::<u64>(), 100);
        let told = told(&used, &access()).unwrap();
        assert_eq!(told.lines().count(), MAX_TOLD + 1);
    }

    #[test]
    fn hosts_are_named_as_the_policy_has_them() {
        let policy: Policy = serde_json::from_value(json!({
            "reach": { "allow": [
                { "host": "a.example" }, { "host": "b.example", "ports": [8080], "methods": ["GET"] },
            ] },
            "deny_hosts": ["c.example"],
        }))
        .unwrap();
        let access = NetworkAccess { policy, packages: true, ..access() };
        expect!["Only these hosts can be reached: `a.example`, `b.example` (port 8080; method GET). Packages can be installed: `pip` finds its index. Never reached: `c.example`."]
            .assert_eq(&hosts(&access));
        assert!(hosts(&NetworkAccess::default()).starts_with("No host can be reached"));
    }
}
