//! Short ways to record and to ask.

use belljar_cassette::{
    Entry, Limits, NotPlayed, Playback, Played, Player, Recorder, Redactor, Request, Store, Tenant,
    Url,
};
use belljar_domain::network::CassetteId;
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let folder = TempDir::new().unwrap();
        let store = Store::open(folder.path().join("tapes"), limits).unwrap();
        Self { folder, store }
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.store.tenant("acme")
    }

    pub(crate) fn recorder(&self) -> Recorder {
        self.tenant().record(&id("a"), Redactor::by_name()).unwrap()
    }

    pub(crate) fn player(&self) -> Player {
        self.tenant().play(&id("a"), Redactor::by_name(), Playback::default()).unwrap()
    }
}

pub(crate) fn id(name: &str) -> CassetteId {
    name.parse().unwrap()
}

pub(crate) struct Ask<'a> {
    method: &'a str,
    url: Url,
    headers: Vec<(&'a str, &'a [u8])>,
    body: &'a [u8],
}

pub(crate) fn get(url: &str) -> Ask<'_> {
    Ask { method: "GET", url: url.parse().unwrap(), headers: vec![], body: b"" }
}

pub(crate) fn post<'a>(url: &str, body: &'a [u8]) -> Ask<'a> {
    Ask { method: "POST", url: url.parse().unwrap(), headers: vec![], body }
}

/// What a model is asked.
pub(crate) fn say(body: &str) -> Ask<'_> {
    post("https://api.example.org/v1/messages", body.as_bytes())
        .with("content-type", "application/json")
}

impl<'a> Ask<'a> {
    pub(crate) fn with(mut self, name: &'a str, value: &'a str) -> Self {
        self.headers.push((name, value.as_bytes()));
        self
    }

    pub(crate) fn by(mut self, method: &'a str) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn view(&self) -> Request<'_> {
        Request {
            method: self.method,
            scheme: self.url.scheme,
            host: &self.url.host,
            port: self.url.port,
            path: &self.url.path,
            query: self.url.query.as_deref(),
            headers: &self.headers,
            body: self.body,
        }
    }

    /// Records an answer in one piece.
    pub(crate) fn gets(&self, recorder: &Recorder, kind: &str, body: &[u8]) -> Entry {
        self.gets_with(recorder, 200, &[("content-type", kind)], body)
    }

    pub(crate) fn gets_with(
        &self,
        recorder: &Recorder,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Entry {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let begun = recorder.begin(&self.view()).unwrap();
        let mut exchange = begun.answer(status, &headers).unwrap();
        exchange.push(body).unwrap();
        exchange.finish().unwrap()
    }

    pub(crate) fn found(&self, player: &Player) -> Played {
        player.find(&self.view()).unwrap()
    }

    /// The whole body that is played.
    pub(crate) fn heard(&self, player: &Player) -> String {
        body(self.found(player))
    }

    #[track_caller]
    pub(crate) fn missed(&self, player: &Player) -> belljar_cassette::Miss {
        match player.find(&self.view()) {
            Err(NotPlayed::Missed(miss)) => *miss,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn body(played: Played) -> String {
    let pieces = played.pieces.flat_map(|piece| piece.unwrap().data).collect();
    String::from_utf8(pieces).unwrap()
}
