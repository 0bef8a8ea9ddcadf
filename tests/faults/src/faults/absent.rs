//! Faults that are not tried, each with the reason.

/// Id, what it is, why not.
pub(crate) const ABSENT: &[(&str, &str, &str)] = &[
    (
        "F-16",
        "power loss of the bus's host",
        "needs a machine whose page cache is lost; F-15 takes away more than that: every file",
    ),
    ("F-20", "consumer leader change", "nothing of ours consumes the stream yet"),
    ("F-36", "a guest's clock after resume", "belongs to the machine tier; slow here without KVM"),
    (
        "F-41",
        "slow upstream model",
        "the gateway's own tests do it, with scripted providers; nothing of the platform is in the way",
    ),
    (
        "F-42",
        "429 and 529 storms",
        "the gateway passes them on; who repeats is the client, there is no agent loop yet",
    ),
    ("F-43", "a model's stream is cut", "the gateway's own tests do it, with scripted providers"),
    ("F-57", "audit sink down", "rows are files beside the records, so F-28 is this fault"),
];
