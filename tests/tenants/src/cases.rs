//! The attacks.

mod approvals;
pub(crate) mod authorization;
mod bodies;
mod books;
mod builds;
mod bus;
mod code;
pub(crate) mod console;
mod cursors;
mod database;
mod datasets;
mod floods;
mod hosts;
mod identity;
mod ids;
mod limits;
mod links;
mod network;
mod nodes;
mod oci;
mod operations;
mod pipelines;
mod policy;
mod ports;
mod quota;
mod recordings;
mod replays;
mod replicas;
mod reuse;
mod secrets;
mod stats;
mod strangers;
mod streams;
mod surface;
mod tiers;
mod token;
mod turns;
mod upgrades;
mod usage;
mod webhooks;
mod workflows;

use std::pin::Pin;

use crate::world::World;

pub(crate) type Run<'a> = Pin<Box<dyn Future<Output = anyhow::Result<String>> + 'a>>;

/// An attack with its control.
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// How many sandboxes a tenant may have.
    pub(crate) quota: usize,
    /// Set for a case that makes many contexts on the server.
    pub(crate) warm: bool,
    pub(crate) run: for<'a> fn(&'a World) -> Run<'a>,
}

const PLENTY: usize = 200;

macro_rules! case {
    ($id:literal, $title:literal, $run:path) => {
        case!($id, $title, $run, PLENTY)
    };
    (warm $id:literal, $title:literal, $run:path) => {
        Case { warm: true, ..case!($id, $title, $run) }
    };
    ($id:literal, $title:literal, $run:path, $quota:expr) => {
        Case {
            id: $id,
            title: $title,
            quota: $quota,
            warm: false,
            run: |world| Box::pin($run(world)),
        }
    };
}

pub(crate) const ALL: &[Case] = &[
    case!(warm "API-01", "another's id on every route", strangers::not_yours_is_no_such),
    case!("API-01/platform", "another's id, by control", authorization::not_yours_is_no_such),
    case!(warm "API-01/hosts", "two hosts in one request", hosts::differ_on_a_server),
    case!("API-01/hosts/platform", "the same, by control", hosts::differ_by_control),
    case!(
        "API-01/hosts/node",
        "a sandbox's host beside control's signature",
        hosts::never_route_what_control_signed
    ),
    case!("API-01/rows", "what another reached, after its end", network::rows_are_ones_own),
    case!("API-01/turns", "a turn of another's run", turns::are_ones_own),
    case!("API-01/turns/platform", "the same after a node's death", turns::outlive_their_node),
    case!("API-02", "guessing ids", ids::cannot_be_guessed),
    case!("API-03", "listening for somebody else", streams::only_ones_own_events),
    case!("API-04", "a cursor of another tenant", cursors::are_ones_own),
    case!("API-04/stats", "figures of another tenant's runs", stats::are_ones_own),
    case!("API-04/stats/platform", "the same, by control", stats::are_ones_own_by_control),
    case!("API-04/usage", "charges of another tenant", usage::is_ones_own),
    case!("API-04/usage/platform", "the same, by control", usage::is_ones_own_by_control),
    case!("API-04/recordings", "recordings and skills of another tenant", recordings::are_ones_own),
    case!(
        "API-04/recordings/platform",
        "the same, by control",
        recordings::are_ones_own_by_control
    ),
    case!(warm "API-05", "undescribed fields", bodies::unknown_fields),
    case!("API-06", "hostile values", bodies::hostile_values),
    case!("API-07", "SQL in every text field", database::texts_stay_texts),
    case!("API-08", "every route without a key", strangers::no_key_no_answer),
    case!("API-08/platform", "every route, every kind of key", authorization::matrix),
    case!("API-08/node", "speaking in control's name", identity::forged::nobody_speaks_for_control),
    case!(warm "API-08/token", "a sandbox's token for all else", token::opens_its_sandbox_alone),
    case!(
        "API-08/token/platform",
        "the same, by control and without",
        token::opens_its_sandbox_on_its_node
    ),
    case!("API-08/inside", "a key on its way to a server inside", token::keys_stay_outside),
    case!("API-08/ports", "a sandbox's two ports without its token", ports::need_the_token),
    case!("API-09", "code that runs while it is read", code::stays_inside),
    case!("API-10", "operator pages on the public port", surface::operators_pages_are_elsewhere),
    case!("API-11", "cookies and other origins", surface::browsers_carry_no_rights),
    case!("API-11/console", "a sandbox's page on the console's origin", console::is_apart),
    case!("API-11/console/platform", "the same, by control", console::is_apart_by_control),
    case!("API-12", "many sandboxes at once", quota::never_above, quota::MOST),
    case!("API-12/limits", "more than the operator's maximum", limits::hold),
    case!("API-12/limits/platform", "the same, by control", limits::hold_on_a_platform),
    case!("API-13", "a key that is taken away", streams::cut_with_the_key),
    case!("API-13/platform", "a key of a platform's", authorization::streams_end_with_their_key),
    case!("API-13/closed", "a tenant that is closed", books::close_with_their_tenant),
    case!("API-14", "another's checkpoint, a shared template", strangers::checkpoints_are_ones_own),
    case!("API-14/once", "one idempotency key for two paths", books::keys_are_for_one_path),
    case!("API-14/nodes", "a template of another node", nodes::templates_are_on_every_node),
    case!("API-14/mounted", "another's file, mounted on a node", datasets::mount_on_a_node),
    case!(
        "API-14/replicas",
        "a replica that has just started",
        replicas::a_new_replica_knows_every_sandbox
    ),
    case!("API-15", "slow, large and idle connections", floods::connections_are_bounded),
    case!("API-15/upgraded", "connections that leave HTTP", upgrades::keep_their_places),
    case!(warm "API-16", "a weaker or a missing tier", tiers::none_is_replaced),
    case!("API-16/floor", "a floor that is undercut", tiers::floors_hold),
    case!("API-17", "one connection to the database for all", database::nothing_stays_behind),
    case!("API-18", "a repeated key in a JSON object", surface::twice_is_refused),
    case!("API-19", "promises of a request", policy::each_field_is_kept),
    case!("API-19/indexes", "an index of one's own", network::indexes_are_the_operators),
    case!("API-19/ended", "ends that no node reported", books::ends_are_as_described),
    case!("API-20", "many keys and addresses", floods::limits_are_not_evaded),
    case!("API-21/links", "links without a signature", books::links_are_signed),
    case!("BUS-01", "the bus and control's ports, from inside", bus::services_are_out_of_reach),
    case!("BUS-02", "a tenant's text in a subject", bus::subjects_are_ours),
    case!("BUS-03", "a stolen node key on every route", identity::stolen::opens_nothing_of_others),
    case!("BUS-03/speak", "speaking for another node", identity::stolen::speaks_for_itself_only),
    case!("BUS-03/address", "another's place in the network", identity::stolen::gets_no_requests),
    case!("BUS-03/revoked", "a node that was revoked", identity::stolen::revoked_is_nobody),
    case!("BUS-03/token", "enrolment tokens", identity::enrolment::tokens_are_for_one_node_once),
    case!(
        "BUS-03/files",
        "secrets that others can read",
        identity::enrolment::open_files_are_refused
    ),
    case!("BUS-10/claims", "limits that a node claims", identity::claims::claims_no_budget),
    case!("BUS-05/poison", "messages that cannot be read", identity::answers::poison_is_refused),
    case!(
        "BUS-05",
        "a node that answers for others",
        identity::answers::nodes_answer_for_themselves
    ),
    case!("BUS-04", "a request of control's again", identity::forged::requests_are_accepted_once),
    case!("API-21", "a signed link for another file, operation or time", links::open_one_thing),
    case!("API-22", "a webhook into the host's network", webhooks::stay_outside),
    case!("API-22/platform", "the same, by control", webhooks::stay_outside_by_control),
    case!("API-04/webhooks", "webhooks of another tenant", webhooks::are_ones_own),
    case!("API-04/webhooks/platform", "the same, by control", webhooks::are_ones_own_by_control),
    case!("API-04/workflows", "workflows of another tenant", workflows::are_ones_own),
    case!("RES-10/workflows", "a workflow whose server is killed", workflows::survive_a_restart),
    case!(
        "RES-10/workflows/platform",
        "a workflow whose worker and node are killed",
        workflows::survive_worker_and_node
    ),
    case!("API-04/pipelines", "a pipeline of another tenant", pipelines::are_ones_own),
    case!(
        "API-04/pipelines/platform",
        "the same, by control and on a node",
        pipelines::are_ones_own_by_control
    ),
    case!("API-04/approvals", "approvals of another tenant", approvals::are_ones_own),
    case!(
        "API-04/approvals/platform",
        "the same, by control and on a node",
        approvals::are_ones_own_by_control
    ),
    case!("GW-22", "secrets in the database", secrets::no_secret_at_rest),
    case!("GW-23", "secrets in responses", secrets::no_secret_in_answers),
    case!("GW-24", "operations that a run did not name", operations::hold_for_runs),
    case!(
        "GW-24/platform",
        "the same, by control and on a node",
        operations::hold_for_runs_on_a_platform
    ),
    case!("GW-24/replayed", "a recorded run without its upstreams", replays::need_no_network),
    case!(
        "GW-24/replayed/platform",
        "the same on another node, through another replica",
        replays::need_no_network_on_another_node
    ),
    case!("BUS-06", "one idempotency key of two tenants", bus::message_ids_are_ours),
    case!("BUS-08", "text that cannot be stored", bus::odd_text_stalls_nothing),
    case!("BUS-09", "a flood of wrong keys", floods::leases_outlast_wrong_keys),
    case!("API-16/floor/builds", "a floor that a build undercuts", builds::floors_hold),
    case!("BLD-10", "an id that is used again", reuse::ids_are_used_once),
    case!("RES-09/builds", "a step that fills the disk", builds::steps_are_bounded),
    case!("OCI-08", "what only a container's spec may say", oci::spec_is_ours),
    case!("OCI-09", "an environment for the host's helpers", oci::environment_stays_inside),
    case!("OCI-14", "a runtime that is missing, broken or too old", oci::no_good_runtime),
];
