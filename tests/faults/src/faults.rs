//! Every fault of the catalogue: those that are tried, and those that are not yet,
//! with the reason.

mod absent;

use std::pin::Pin;

use crate::case::Case;
use crate::invariants::Invariant;

pub(crate) type Run<'a> = Pin<Box<dyn Future<Output = anyhow::Result<String>> + 'a>>;

/// A fault that is tried.
pub(crate) struct Fault {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) invariants: &'static [Invariant],
    /// What is done, in a few words.
    pub(crate) does: &'static str,
    /// Answers what was seen.
    pub(crate) run: for<'a> fn(&'a mut Case) -> Run<'a>,
    /// The same without the defence: must show a violation.
    pub(crate) control: Option<for<'a> fn(&'a mut Case) -> Run<'a>>,
}

pub(crate) use absent::ABSENT;

macro_rules! fault {
    ($id:literal, $title:literal, [$($invariant:ident)*], $does:literal, $run:path) => {
        Fault {
            id: $id,
            title: $title,
            invariants: &[$(Invariant::$invariant),*],
            does: $does,
            run: |case| Box::pin($run(case)),
            control: None,
        }
    };
    ($id:literal, $title:literal, [$($invariant:ident)*], $does:literal, $run:path, $control:path) => {
        Fault {
            control: Some(|case| Box::pin($control(case))),
            ..fault!($id, $title, [$($invariant)*], $does, $run)
        }
    };
}

mod answers;
mod budgets;
mod bus;
mod clients;
mod clock;
mod daemon;
mod database;
mod disk;
mod flood;
mod guest;
mod home;
mod identity;
mod money;
mod platform;
mod points;
mod resources;
mod runs;
mod store;
mod templates;
mod traces;
mod way_out;

/// In the order of the catalogue.
pub(crate) const ALL: &[Fault] = &[
    fault!("F-01", "node daemon killed with 20 that run", [I1 I3 I4 I6 I8 I11],
        "SIGKILL, three times; started again", daemon::killed, daemon::killed_for_good),
    fault!("F-02", "a node dies and never comes back", [I1 I3 I4 I5 I6 I11],
        "SIGKILL of a node; its rows, its places, its tokens", platform::lost),
    fault!("F-03", "killed while a sandbox is made", [I1 I3 I8 I10 I11],
        "SIGKILL of daemon or spawner at 16 moments of a create", daemon::killed_while_making),
    fault!("F-03/platform", "a node dies at each step", [I1 I2 I3 I5 I6 I10 I11],
        "five points while it makes and ends, on a platform", points::node_dies),
    fault!("F-04", "killed while a sandbox is ended", [I1 I3 I10 I11],
        "SIGKILL at 12 moments of a delete", daemon::killed_while_ending),
    fault!("F-05", "guest agent stands still or is killed", [I1 I3 I10],
        "SIGSTOP, SIGKILL of pid 1 inside", guest::wedged),
    fault!("F-06", "pid 1 dies under a call", [I1 I2 I3 I10],
        "SIGKILL between an effect and its answer", guest::init_dies),
    fault!("F-07", "the emulator of a machine dies", [I1 I3 I10],
        "SIGKILL of QEMU under a call", guest::machine_killed),
    fault!("F-08", "control dies between row and node", [I1 I2 I3 I5 I6 I10 I11],
        "at the point `control.admitted`; the client asks the other replica", points::after_admit),
    fault!("F-09", "control dies after the node answered", [I1 I2 I3 I5 I6 I10 I11],
        "at the point `control.answered`; the client asks the other replica",
        points::after_answer),
    fault!("F-10", "control dies after it wrote, before it said so", [I1 I3 I5 I6 I10 I11],
        "at the points `control.synced` and `control.published`", points::after_record),
    fault!("F-11", "a node that stood still goes on", [I1 I3 I5 I6 I7 I11],
        "SIGSTOP of a node for two leases", platform::stopped),
    fault!("F-12", "control killed under load", [I1 I2 I3 I5 I6 I10 I11],
        "8 times SIGKILL; every client asks again", points::control_killed),
    fault!("F-13", "many schedulers at once", [I1 I2 I5],
        "8 place the same request", store::many_schedulers, store::many_schedulers_without_epochs),
    fault!("F-13/platform", "one key at both replicas", [I1 I2 I3 I5 I6 I10],
        "10 keys, 10 requests each, two controls", points::both_replicas),
    fault!("F-14", "the bus is killed", [I1 I2 I3 I5 I6 I10 I11],
        "one, two, three of three servers, under load", bus::killed),
    fault!("F-15", "the bus has lost everything", [I1 I3 I5 I6 I11],
        "the files of all three servers removed", bus::wiped),
    fault!("F-17", "said 1000 times, out of order", [I1 I2 I5],
        "ends, starts and charges, repeated by 10 at once",
        store::said_again, store::said_again_without_keys),
    fault!("F-18", "acknowledgements are lost", [I1 I3 I5 I7 I11],
        "a proxy passes messages and swallows every answer", bus::mute),
    fault!("F-19", "repeated after the bus has forgotten", [I1 I2 I5],
        "a publisher dies before it marks, a stream is filled again", store::after_the_window),
    fault!("F-21", "the database is killed again and again", [I1 I2 I3 I5 I6 I10 I11],
        "SIGKILL and immediate stop in turn, under load", database::restarts),
    fault!("F-22", "connection cut at COMMIT", [I1 I2 I5],
        "a proxy swallows the server's answer, 20 times",
        store::cut_at_commit, store::cut_at_commit_without_key),
    fault!("F-23", "the database's disk is full", [I1 I3 I5 I6 I10 I11],
        "its files on a small file system, filled", database::full),
    fault!("F-24", "fsync fails", [I1 I3 I5 I6 I11],
        "EIO for the checkpointer, by strace", database::fsync_fails),
    fault!("F-25", "the database is slow, then locked", [I1 I2 I3 I5 I6 I10 I11],
        "60 ms for each piece, 4 s of an exclusive lock", database::slow),
    fault!("F-26", "a standby that lacks the last commits", [I3 I5 I6 I7 I11],
        "older files put in place, nodes alive", database::failover),
    fault!("F-27", "changes that meet and are thrown out", [I1 I2 I5],
        "12 writers, held rows, killed connections", store::storms),
    fault!("F-28", "disk full", [I1 I3 I7 I9 I10 I11],
        "the daemon's records on a full file system", disk::full),
    fault!("F-29", "no inodes left", [I1 I3 I7 I9 I10 I11],
        "the same, with blocks but no files", disk::no_inodes),
    fault!("F-30", "disk read-only", [I1 I3 I7 I10 I11],
        "remounted under the daemon", disk::read_only),
    fault!("F-31", "no memory left for sandboxes", [I1 I3 I10 I11],
        "a bound on the tree of all sandboxes, three that want it all", resources::memory),
    fault!("F-32", "a node is starved", [I1 I2 I3 I5 I6 I11],
        "a twentieth of a processor for 15 s, under load", platform::starved),
    fault!("F-33", "no descriptors left", [I1 I3 I9 I10 I11],
        "220 silent clients, 160 descriptors", resources::descriptors),
    fault!("F-34", "the clock jumps", [I1 I3 I4],
        "an hour forward, one and two back, a leap second, under deadlines", clock::jumps),
    fault!("F-35", "a machine sleeps", [I1 I3 I5 I6 I7 I11],
        "SIGSTOP of everything of a node for two leases", platform::slept),
    fault!("F-37", "a node is cut off", [I1 I3 I5 I6 I7 I11],
        "both ways, from both controls", platform::cut_off),
    fault!("F-38", "links cut one way, or to the bus", [I1 I3 I5 I6 I11],
        "node to one control, one control to the node; node and bus, one control and the database", platform::one_way),
    fault!("F-39", "one control without a database", [I1 I3 I5 I6 I7 I11],
        "cut from it for two leases; the other has it", database::one_without),
    fault!("F-40", "the other side vanishes", [I1 I3 I6 I9 I10 I11],
        "a node cut off in the middle of answers", platform::half_open),
    fault!("F-44", "an effect whose reply is lost", [I1 I2 I10 I12],
        "the other side counts and hangs up", way_out::reply_lost),
    fault!("F-45", "wrong certificate, no such host", [I7 I10],
        "TLS that ends at the gateway, towards a self-made certificate",
        way_out::wrong_certificate),
    fault!("F-46", "gateway killed under requests", [I1 I2 I7 I11],
        "SIGKILL with five requests under way", way_out::gateway_killed),
    fault!("F-47", "gateways and control killed while a budget is spent", [I5 I6],
        "1,008 requests of 9 sandboxes on 3 nodes for one budget of 400; SIGKILL at random",
        budgets::spent_under_kills),
    fault!("F-48", "an unreadable or wider policy", [I7 I10],
        "pushed over a narrow one", way_out::bad_policy),
    fault!("F-49", "a listener that comes again", [I1 I2 I9 I10],
        "a call's events, left and followed anew 100 times", clients::comes_again),
    fault!("F-50", "the same create ten times at once", [I1 I2 I3 I10],
        "one idempotency key, ten connections", clients::same_key, clients::no_key),
    fault!("F-51", "delete, pause and call race", [I1 I3 I10],
        "24 pairs at moments 3 ms apart", clients::races),
    fault!("F-52", "150 deadlines in one moment", [I1 I3 I11],
        "all deadlines set to the same second", clients::all_expire),
    fault!("F-53", "all clients return at once", [I1 I2 I3 I5 I6 I10 I11],
        "both controls away for 3 s, 16 clients", points::storm),
    fault!("F-54", "row without code, code without row", [I1 I3 I5 I6 I11],
        "a row ended by hand, guests killed by hand", points::leaks),
    fault!("F-55", "many reapers, one of them killed", [I1 I2 I5 I9],
        "10 give up the same nodes", store::many_reapers, store::many_reapers_in_two_steps),
    fault!("F-56", "teardown of what does not run", [I1 I3 I9 I10],
        "every process stopped, a FIFO, a busy directory", guest::stuck),
    fault!("F-58", "traces cannot be sent", [I1 I2 I3 I5 I6 I10 I11],
        "every role sends them to an address without a listener", points::no_traces),
    fault!("F-59", "one role after the other is restarted", [I1 I2 I3 I5 I6 I10 I11],
        "2 controls and 3 nodes, stopped and started under load; one build", points::rolling),
    fault!("F-60", "keys replaced, once by nonsense", [I1 I7 I10],
        "the key file, under a running server", clients::keys_change),
    fault!("F-61", "the zygote dies or stands still", [I1 I3 I10 I11],
        "SIGKILL, SIGSTOP of the warm interpreter", templates::zygote),
    fault!("F-62", "a template that is half there", [I7 I10 I11],
        "a cut, an empty description, a missing layer", templates::damaged),
    fault!("F-63", "the meter begins anew", [I1 I3 I5 I6 I10 I11],
        "SIGKILL of a node that has one on disk, then its resume", money::meter_restarts),
    fault!("F-64", "a backup is restored under live nodes", [I3 I5 I6 I7 I11],
        "as F-26, and a node has registered since", database::restored),
    fault!("F-65", "certificates and authorities are replaced", [I1 I2 I3 I5 I6 I10 I11],
        "certificates that live for 15 s, a new authority, the old one dropped, under load", identity::rotated),
    fault!("F-66", "a node is revoked", [I1 I3 I5 I6 I11],
        "one of two, under load; then it is let in again", identity::revoked),
    fault!("F-67", "a flood of wrong keys", [I1 I3 I5 I6 I11],
        "30 HTTP/2 connections, 5,000 a second for 90 s, with 200 sandboxes", flood::of_wrong_keys),
    fault!("F-68", "control dies when a run is created", [I1 I3 I5 I6 I10 I11],
        "at the point `run.run_created`; the client asks the other replica", runs::created),
    fault!("F-69", "control dies when a turn begins", [I1 I3 I5 I6 I10 I11],
        "at the point `run.prompt_built`; the other replica goes on", runs::turn_started),
    fault!("F-70", "control dies when the model is asked", [I1 I3 I5 I6 I10 I11],
        "at the point `run.llm_requested`; the other replica goes on", runs::model_asked),
    fault!("F-71", "control dies when the model has answered", [I1 I3 I5 I6 I10 I11],
        "at the point `run.llm_responded`; the other replica goes on", runs::model_answered),
    fault!("F-72", "control dies before a call of a run starts", [I1 I3 I5 I6 I10 I11],
        "at the point `run.tool_intended`; the other replica goes on", runs::call_intended),
    fault!("F-73", "control dies when a call of a run has started", [I1 I3 I5 I6 I10 I11],
        "at the point `run.tool_started`; the other replica goes on", runs::call_started),
    fault!("F-74", "control dies when a call of a run has ended", [I1 I3 I5 I6 I10 I11],
        "at the point `run.tool_finished`; the other replica goes on", runs::call_ended),
    fault!("F-75", "control dies when a run ends", [I1 I3 I5 I6 I10 I11],
        "at the point `run.finished`; the client asks the other replica", runs::ended),
    fault!("F-76", "the node of a run is killed", [I1 I3 I5 I6 I10 I11],
        "SIGKILL while a call of the run executes; started again", runs::node_killed),
    fault!("F-76/home", "the home node of a tenant is dead", [I1 I3 I5 I6 I10 I11],
        "SIGKILL before a run and sandboxes are created; started again afterwards", home::away),
    fault!("F-77", "the gateway of runs is killed", [I1 I3 I5 I6 I10 I11],
        "SIGKILL while the model is asked, on both controls", runs::gateway_killed),
    fault!("F-78", "the database is killed under runs", [I1 I3 I5 I6 I10 I11],
        "SIGKILL three times, with 4 runs in flight", runs::database_killed),
    fault!("F-79", "both controls are killed under runs", [I1 I3 I5 I6 I10 I11],
        "SIGKILL of both, twice, with 4 runs in flight", runs::controls_killed),
    fault!("F-80", "control dies with a model's answer", [I1 I2 I3 I5 I6 I10 I11],
        "at the point `run.answer_kept`, before the event is written; the provider counts its answers",
        answers::kept, answers::not_kept),
    fault!("F-81", "no database when the model answers", [I1 I2 I3 I5 I6 I10 I11],
        "SIGKILL while the model is asked, started again after its answer; the provider counts its answers",
        answers::no_database),
    fault!("F-82", "control dies when a run has its sandbox", [I1 I3 I5 I6 I10 I11],
        "at the point `run.sandbox_attached`; the other replica goes on", runs::sandbox_attached),
    fault!("F-83", "the worker of a traced run is killed", [I1 I3 I5 I6 I10 I11],
        "SIGKILL of its replica while a call executes, on 3 nodes; a collector takes the spans",
        traces::worker_killed),
    fault!("F-84", "control dies when a run has its files", [I1 I3 I5 I6 I10 I11],
        "at the point `run.artifact_added`; the other replica goes on", runs::result_added),
];
