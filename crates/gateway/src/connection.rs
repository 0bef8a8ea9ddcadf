//! What is known of one connection from inside, for as long as it lasts.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use belljar_domain::network::{Reason, Subject};
use belljar_egress::{Destination, Verdict, vet};
use belljar_peer_proto::gateway::Belongs;
use futures_util::task::AtomicWaker;
use tokio::sync::SetOnce;

use crate::session::{Session, State};
use crate::upstream::Place;

/// Shared by all that happens on one connection. Handlers find it among the
/// extensions of a request, as `Arc<Connection>`.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) session: Arc<Session>,
    /// Counts up within a sandbox.
    pub(crate) number: u64,
    belongs: SetOnce<Belongs>,
    cut: OnceLock<Reason>,
    /// Whoever reads from the client, to be told of the cut.
    pub(crate) reader: AtomicWaker,
    uses: Mutex<Uses>,
}

/// What a policy must go on allowing, or the connection is cut.
#[derive(Debug, Default)]
struct Uses {
    /// With the address, once it is connected to.
    tunnel: Option<(Destination, Option<IpAddr>)>,
    /// TLS to this host ends here.
    content: Option<Destination>,
    exchange: Option<Exchange>,
}

#[derive(Debug)]
struct Exchange {
    place: Place,
    method: String,
    target: String,
    address: Option<IpAddr>,
}

impl Connection {
    pub(crate) fn new(session: Arc<Session>) -> Arc<Self> {
        let number = session.next_connection();
        Arc::new(Self {
            session,
            number,
            belongs: SetOnce::new(),
            cut: OnceLock::new(),
            reader: AtomicWaker::new(),
            uses: Mutex::default(),
        })
    }

    /// The time for which its client may take no byte of an answer.
    pub(crate) fn write_patience(&self) -> Duration {
        self.session.shared.live().config.gateway.write_patience()
    }

    /// Says whose it is; the first word counts.
    pub(crate) fn attribute(&self, belongs: Belongs) {
        let _ = self.belongs.set(belongs);
    }

    /// Waits until it is known whose it is, or that nobody can tell.
    pub(crate) async fn attributed(&self) {
        self.belongs.wait().await;
    }

    /// Whose it is, as far as is known now.
    pub(crate) fn subject(&self) -> Subject {
        let mut subject = self.session.subject.clone();
        if let Some(belongs) = self.belongs.get() {
            let Belongs { run, turn, call, process } = belongs.clone();
            subject.run = run.or(subject.run);
            subject.turn = turn.or(subject.turn);
            subject.call = call;
            subject.process = process;
        }
        subject
    }

    /// No byte goes out on it from now on.
    fn cut(&self, reason: Reason) {
        let _ = self.cut.set(reason);
        self.reader.wake();
    }

    pub(crate) fn why_cut(&self) -> Option<Reason> {
        self.cut.get().copied()
    }

    /// Ends when the connection has to, after it has been cut.
    pub(crate) async fn until_cut(&self) {
        let mut changes = self.session.watch();
        loop {
            let state = changes.borrow_and_update().clone();
            if state.closed {
                return self.cut(Reason::Ended);
            }
            if !self.is_allowed(&state) {
                return self.cut(Reason::PolicyChanged);
            }
            if changes.changed().await.is_err() {
                return self.cut(Reason::Ended);
            }
        }
    }

    fn is_allowed(&self, state: &State) -> bool {
        let live = self.session.shared.live();
        let reaches = |to: &Destination, address: IpAddr| {
            vet(SocketAddr::new(address, to.port), &state.policy, &live.openings).is_ok()
        };
        let uses = self.uses();
        let tunnel = uses.tunnel.as_ref().is_none_or(|(to, address)| {
            state.judge(to) == Verdict::Tunnel && address.is_none_or(|address| reaches(to, address))
        });
        let content =
            uses.content.as_ref().is_none_or(|to| !matches!(state.judge(to), Verdict::Deny(_)));
        let exchange = uses.exchange.as_ref().is_none_or(|exchange| {
            let Exchange { place, method, target, address } = exchange;
            state.may_leave(place, method, target).is_ok()
                && address.is_none_or(|address| reaches(&place.destination, address))
        });
        tunnel && content && exchange
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, bytes pass to `destination` unread. Said as soon as that was
    /// judged, so that no change of policy goes unnoticed between, and again with
    /// the address.
    pub(crate) fn tunnels(&self, destination: &Destination, address: Option<IpAddr>) {
        self.uses().tunnel = Some((destination.clone(), address));
    }

    /// Whether what it does is still allowed. Asked after something was added to
    /// that; later changes are noticed by [`Self::until_cut`].
    pub(crate) fn check(&self) -> Result<(), Reason> {
        let state = self.session.state();
        if !state.closed && self.is_allowed(&state) { Ok(()) } else { Err(Reason::PolicyChanged) }
    }

    /// From now on, what is for `destination` is read here.
    pub(crate) fn reads(&self, destination: &Destination) {
        self.uses().content = Some(destination.clone());
    }

    /// Until the returned guard is dropped, this request is under way.
    pub(crate) fn exchanges(
        self: &Arc<Self>,
        place: &Place,
        method: &str,
        target: &str,
    ) -> UnderWay {
        self.uses().exchange = Some(Exchange {
            place: place.clone(),
            method: method.to_owned(),
            target: target.to_owned(),
            address: None,
        });
        UnderWay(Arc::clone(self))
    }
}

/// An exchange that goes out.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Connection>);

impl UnderWay {
    /// Where it really went.
    pub(crate) fn reached(&self, address: IpAddr) -> Result<(), Reason> {
        if let Some(exchange) = &mut self.0.uses().exchange {
            exchange.address = Some(address);
        }
        self.0.check()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.uses().exchange = None;
    }
}
