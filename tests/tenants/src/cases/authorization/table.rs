//! Who may do what: the one table, written by hand.

use belljar_store::Scope;

use Need::{ChangeSandboxes, ChangeTemplates, LookSandboxes, LookTemplates, Nothing};

/// What a request asks of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// No key at all.
    Nothing,
    LookSandboxes,
    ChangeSandboxes,
    LookTemplates,
    ChangeTemplates,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    NoKey,
    Wrong,
    Expired,
    Revoked,
    Has(Scope),
    /// All that a key may open, but of somebody else's.
    Other,
}

pub(super) const ALL: [(&str, Who); 9] = [
    ("no key", Who::NoKey),
    ("wrong", Who::Wrong),
    ("expired", Who::Expired),
    ("revoked", Who::Revoked),
    ("`read`", Who::Has(Scope::Read)),
    ("`sandboxes`", Who::Has(Scope::Sandboxes)),
    ("`templates`", Who::Has(Scope::Templates)),
    ("`admin`", Who::Has(Scope::Admin)),
    ("other tenant", Who::Other),
];

/// What must come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Yes,
    No(u16),
}

/// The rule. `named`: whether the request names something of a tenant's.
pub(super) fn expected(who: Who, need: Need, named: bool) -> Cell {
    use Scope::{Admin, Read, Sandboxes, Templates};
    let opens: &[Scope] = match need {
        Nothing => return Cell::Yes,
        LookSandboxes => &[Read, Sandboxes, Admin],
        ChangeSandboxes => &[Sandboxes, Admin],
        LookTemplates => &[Read, Sandboxes, Templates, Admin],
        ChangeTemplates => &[Templates, Admin],
    };
    match who {
        Who::NoKey | Who::Wrong | Who::Expired | Who::Revoked => Cell::No(401),
        Who::Has(scope) if opens.contains(&scope) => Cell::Yes,
        Who::Has(_) => Cell::No(403),
        // The same as for what does not exist.
        Who::Other if named => Cell::No(404),
        Who::Other => Cell::Yes,
    }
}

/// Every route. One that is not here fails the suite.
pub(super) const ROUTES: &[(&str, &str, Need)] = &[
    ("POST", "/v1/sandboxes", ChangeSandboxes),
    ("GET", "/v1/sandboxes", LookSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}", LookSandboxes),
    ("PATCH", "/v1/sandboxes/{sandbox}", ChangeSandboxes),
    ("DELETE", "/v1/sandboxes/{sandbox}", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/pause", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/resume", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/fork", ChangeSandboxes),
    ("GET", "/v1/ended", LookSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/calls", ChangeSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/calls", LookSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/calls/{call}", LookSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/calls/{call}/events", LookSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/calls/{call}/stdin", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/calls/{call}/signal", ChangeSandboxes),
    ("DELETE", "/v1/sandboxes/{sandbox}/calls/{call}", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/contexts", ChangeSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/contexts", LookSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/contexts/{context}/cells", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/contexts/{context}/interrupt", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/contexts/{context}/restart", ChangeSandboxes),
    ("DELETE", "/v1/sandboxes/{sandbox}/contexts/{context}", ChangeSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/files/content", LookSandboxes),
    ("PUT", "/v1/sandboxes/{sandbox}/files/content", ChangeSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/files/stat", LookSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/files", LookSandboxes),
    ("DELETE", "/v1/sandboxes/{sandbox}/files", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/files/directories", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/files/move", ChangeSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/network", LookSandboxes),
    ("PUT", "/v1/sandboxes/{sandbox}/network", ChangeSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/cassette", LookSandboxes),
    ("PUT", "/v1/sandboxes/{sandbox}/cassette", ChangeSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/connections", LookSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/tokens", ChangeSandboxes),
    ("GET", "/v1/approvals", LookSandboxes),
    ("POST", "/v1/approvals/{approval}", ChangeSandboxes),
    ("POST", "/v1/sandboxes/{sandbox}/checkpoints", ChangeSandboxes),
    ("GET", "/v1/checkpoints", LookSandboxes),
    ("POST", "/v1/checkpoints/{checkpoint}/fork", ChangeSandboxes),
    ("DELETE", "/v1/checkpoints/{checkpoint}", ChangeSandboxes),
    ("POST", "/v1/runs", ChangeSandboxes),
    ("GET", "/v1/runs", LookSandboxes),
    ("GET", "/v1/runs/{run}", LookSandboxes),
    ("PATCH", "/v1/runs/{run}", ChangeSandboxes),
    ("POST", "/v1/runs/{run}/pause", ChangeSandboxes),
    ("POST", "/v1/runs/{run}/resume", ChangeSandboxes),
    ("POST", "/v1/runs/{run}/cancel", ChangeSandboxes),
    ("POST", "/v1/runs/{run}/step", ChangeSandboxes),
    ("PUT", "/v1/runs/{run}/breakpoints", ChangeSandboxes),
    ("POST", "/v1/runs/{run}/tell", ChangeSandboxes),
    ("POST", "/v1/runs/{run}/answer", ChangeSandboxes),
    ("POST", "/v1/runs/{run}/retry", ChangeSandboxes),
    ("GET", "/v1/runs/{run}/turns/{turn}/prompt", LookSandboxes),
    ("GET", "/v1/runs/{run}/turns/{turn}/calls/{call}/output", LookSandboxes),
    ("GET", "/v1/runs/{run}/events", LookSandboxes),
    ("GET", "/v1/runs/{run}/files/{file}", LookSandboxes),
    ("GET", "/v1/runs/{run}/report", LookSandboxes),
    ("GET", "/v1/runs/{run}/turns/{turn}", LookSandboxes),
    ("GET", "/v1/stats", LookSandboxes),
    ("GET", "/v1/usage", LookSandboxes),
    ("POST", "/v1/data", ChangeSandboxes),
    ("GET", "/v1/data", LookSandboxes),
    ("GET", "/v1/data/{data}/description", LookSandboxes),
    ("DELETE", "/v1/data/{data}", ChangeSandboxes),
    ("GET", "/v1/templates", LookTemplates),
    ("GET", "/v1/templates/{template}", LookTemplates),
    ("GET", "/v1/events", LookSandboxes),
    ("GET", "/v1/sandboxes/{sandbox}/events", LookSandboxes),
    ("POST", "/v1/webhooks", ChangeSandboxes),
    ("GET", "/v1/webhooks", LookSandboxes),
    ("GET", "/v1/webhooks/{webhook}", LookSandboxes),
    ("DELETE", "/v1/webhooks/{webhook}", ChangeSandboxes),
    ("POST", "/v1/webhooks/{webhook}/test", ChangeSandboxes),
    ("POST", "/v1/webhooks/{webhook}/rotate", ChangeSandboxes),
    ("POST", "/v1/webhooks/{webhook}/enable", ChangeSandboxes),
    ("GET", "/v1/webhooks/{webhook}/deliveries", LookSandboxes),
    ("POST", "/v1/workflows", ChangeSandboxes),
    ("GET", "/v1/workflows", LookSandboxes),
    ("GET", "/v1/workflows/{workflow}", LookSandboxes),
    ("POST", "/v1/workflows/{workflow}/cancel", ChangeSandboxes),
    ("GET", "/v1/workflows/{workflow}/graph", LookSandboxes),
    ("GET", "/v1/workflows/{workflow}/files/{file}", LookSandboxes),
    ("GET", "/v1/health", Nothing),
    ("GET", "/v1/ready", Nothing),
    ("GET", "/v1/openapi.json", Nothing),
    ("GET", "/docs", Nothing),
    ("GET", "/sandboxes", LookSandboxes),
    ("POST", "/sandboxes", ChangeSandboxes),
    ("GET", "/v2/sandboxes", LookSandboxes),
    ("POST", "/v2/sandboxes", ChangeSandboxes),
    ("GET", "/sandboxes/metrics", LookSandboxes),
    ("GET", "/sandboxes/{id}", LookSandboxes),
    ("DELETE", "/sandboxes/{id}", ChangeSandboxes),
    ("POST", "/sandboxes/{id}/timeout", ChangeSandboxes),
    ("POST", "/sandboxes/{id}/refreshes", ChangeSandboxes),
    ("POST", "/sandboxes/{id}/pause", ChangeSandboxes),
    ("POST", "/sandboxes/{id}/resume", ChangeSandboxes),
    ("POST", "/sandboxes/{id}/connect", ChangeSandboxes),
    ("POST", "/v2/sandboxes/{id}/connect", ChangeSandboxes),
    ("POST", "/sandboxes/{id}/fork", ChangeSandboxes),
    ("PUT", "/sandboxes/{id}/network", ChangeSandboxes),
    ("GET", "/sandboxes/{id}/metrics", LookSandboxes),
    ("GET", "/sandboxes/{id}/logs", LookSandboxes),
    ("GET", "/v2/sandboxes/{id}/logs", LookSandboxes),
    ("POST", "/sandboxes/{id}/snapshots", ChangeSandboxes),
    ("GET", "/snapshots", LookSandboxes),
    ("POST", "/v3/templates", ChangeTemplates),
    ("GET", "/v2/templates", LookTemplates),
    ("GET", "/templates", LookTemplates),
    ("POST", "/templates/tags", ChangeTemplates),
    ("DELETE", "/templates/tags", ChangeTemplates),
    ("GET", "/templates/aliases/{name}", LookTemplates),
    ("GET", "/templates/{id}", LookTemplates),
    ("DELETE", "/templates/{id}", ChangeTemplates),
    ("GET", "/templates/{id}/tags", LookTemplates),
    ("GET", "/templates/{id}/files/{hash}", ChangeTemplates),
    ("POST", "/v2/templates/{id}/builds/{build}", ChangeTemplates),
    ("GET", "/templates/{id}/builds/{build}/status", LookTemplates),
    ("GET", "/templates/{id}/builds/{build}/logs", LookTemplates),
    ("GET", "/volumes", LookSandboxes),
    ("POST", "/volumes", ChangeSandboxes),
    ("GET", "/volumes/{id}", LookSandboxes),
    ("DELETE", "/volumes/{id}", ChangeSandboxes),
    ("GET", "/secrets", LookSandboxes),
    ("POST", "/secrets", ChangeSandboxes),
    ("GET", "/secrets/{name}", LookSandboxes),
    ("POST", "/secrets/{name}", ChangeSandboxes),
    ("DELETE", "/secrets/{name}", ChangeSandboxes),
    ("GET", "/health", Nothing),
    ("GET", "/console", Nothing),
];

/// What is answered to whoever may, where it is not success: of these there is
/// nothing to show or to change, as no template was built, no run was worked on, no request waits for
/// approval, and no file can be described without a reader.
pub(super) const LACKING: &[(&str, &str, u16)] = &[
    ("GET", "/v1/sandboxes/{sandbox}/cassette", 404),
    ("PUT", "/v1/sandboxes/{sandbox}/cassette", 422),
    ("POST", "/v1/approvals/{approval}", 409),
    ("POST", "/v1/runs/{run}/answer", 409),
    ("POST", "/v1/runs/{run}/retry", 409),
    ("GET", "/v1/runs/{run}/turns/{turn}/prompt", 404),
    ("GET", "/v1/runs/{run}/turns/{turn}/calls/{call}/output", 404),
    ("GET", "/v1/runs/{run}/files/{file}", 404),
    ("GET", "/v1/runs/{run}/report", 409),
    ("GET", "/v1/runs/{run}/turns/{turn}", 404),
    ("GET", "/v1/data/{data}/description", 422),
    ("GET", "/v1/workflows/{workflow}/files/{file}", 404),
    ("POST", "/templates/tags", 404),
    ("DELETE", "/templates/tags", 404),
    ("GET", "/templates/aliases/{name}", 404),
];
