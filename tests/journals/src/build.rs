//! Runs and events to test with.

use std::io::Read as _;

use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{
    Artifact, ArtifactAdded, Budget, ControlRequested, Dataset, Finished, ForkedFrom, Injected,
    InjectedMessage, Outcome, Prompt, Request, RunCreated,
};
use belljar_journal::{Address, BlobRef, First, NewEvent, NewRun};
use belljar_objects::Digest;
use time::OffsetDateTime;

pub fn random() -> [u8; 16] {
    let mut bits = [0; 16];
    let source = std::fs::File::open("/dev/urandom");
    source.and_then(|mut source| source.read_exact(&mut bits)).expect("the kernel has randomness");
    bits
}

pub fn address(tenant: &str) -> Address {
    Address { tenant: tenant.to_owned(), run: RunId::from_bits(random()) }
}

pub fn created(question: &str) -> RunCreated {
    let data = Dataset {
        name: "deals".into(),
        fingerprint: Digest::of(b"deals"),
        bytes: 5,
        description: None,
        origin: None,
    };
    RunCreated {
        question: question.to_owned(),
        datasets: vec![data],
        model: "scripted".into(),
        prompt: Prompt { name: "react".into(), version: "1".into(), sha256: Digest::of(b"react") },
        budget: Budget { turns: Some(10), ..Budget::default() },
        now: OffsetDateTime::UNIX_EPOCH,
        wish: None,
    }
}

pub fn new(tenant: &str) -> NewRun {
    NewRun {
        address: address(tenant),
        first: First::Created(created("why?")),
        most_unfinished: None,
    }
}

pub fn fork(parent: &Address, after: u64) -> NewRun {
    let forked = ForkedFrom {
        parent: parent.run.clone(),
        after: Sequence(after),
        model: None,
        prompt: None,
        budget: None,
        retry: None,
    };
    NewRun { address: address(&parent.tenant), first: First::Forked(forked), most_unfinished: None }
}

/// An event without a key of its own.
pub fn artifact(name: &str) -> NewEvent {
    let content = BlobRef::of(name.as_bytes());
    let artifact = Artifact { name: name.to_owned(), media_type: "text/plain".into(), content };
    NewEvent::new(ArtifactAdded { artifact, call: None })
}

/// One of any length.
pub fn said(text: &str) -> NewEvent {
    let (kind, answers) = (Injected::Guard, None);
    NewEvent::new(InjectedMessage { kind, turn: 1, text: text.to_owned(), answers })
}

pub fn finished(seen: Sequence) -> NewEvent {
    let outcome = Outcome::Answered;
    let result = Some("42".to_owned());
    NewEvent::new(Finished { outcome, error: None, message: None, result }).seen(seen)
}

pub fn want(request: Request) -> ControlRequested {
    ControlRequested { request, by: "a test".to_owned() }
}
