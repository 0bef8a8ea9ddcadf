//! Refusals in git's own protocol. Its clients show no other words of a server.

use ::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use super::commands::Commands;
use super::pktline;
use super::route::Service;
use crate::answer::{self, REASON};
use crate::body::{Answer, whole};
use crate::operations::refuse::Refusal;

/// Before each message, so that it is not taken for the server's.
const SENDER: &str = "belljar";

const MAX_MESSAGE: usize = 1000;

/// A place in the protocol where a client hears an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Teller {
    Advertisement(Service),
    /// In the place of a pack.
    Pack,
}

impl Teller {
    pub(super) fn of(rest: &str, query: Option<&str>) -> Option<Self> {
        if rest.ends_with("/info/refs") {
            return match query {
                Some("service=git-upload-pack") => Some(Self::Advertisement(Service::Upload)),
                Some("service=git-receive-pack") => Some(Self::Advertisement(Service::Receive)),
                _ => None,
            };
        }
        rest.ends_with("/git-upload-pack").then_some(Self::Pack)
    }

    /// The refusal as an answer; none: the client must see its status.
    pub(super) fn tell(self, refusal: &Refusal) -> Option<Answer> {
        if matches!(refusal, Refusal::Token) {
            return None;
        }
        let mut text = Vec::new();
        let media_type = match self {
            Self::Advertisement(service) => {
                pktline::line(&mut text, format!("# service={}\n", service.name()).as_bytes());
                pktline::flush(&mut text);
                match service {
                    Service::Upload => "application/x-git-upload-pack-advertisement",
                    Service::Receive => "application/x-git-receive-pack-advertisement",
                }
            }
            Self::Pack => "application/x-git-upload-pack-result",
        };
        pktline::line(&mut text, format!("ERR {SENDER}: {}\n", one_line(refusal)).as_bytes());
        Some(reported(text, media_type, refusal))
    }
}

/// Says of each reference of a push that it was refused; none: the client wants no report.
pub(super) fn of_push(commands: &Commands, refusal: &Refusal) -> Option<Answer> {
    if !(commands.has("report-status") || commands.has("report-status-v2")) {
        return None;
    }
    let mut report = Vec::new();
    pktline::line(&mut report, b"unpack ok\n");
    for update in &commands.updates {
        let line = format!("ng {} {SENDER}: {}\n", update.name, one_line(refusal));
        pktline::line(&mut report, line.as_bytes());
    }
    pktline::flush(&mut report);
    let text = if commands.has("side-band-64k") {
        let mut text = Vec::new();
        pktline::band(&mut text, 1, &report);
        pktline::flush(&mut text);
        text
    } else {
        report
    };
    Some(reported(text, "application/x-git-receive-pack-result", refusal))
}

/// A human's words may have more lines.
fn one_line(refusal: &Refusal) -> String {
    let blank = |letter: char| if letter.is_control() { ' ' } else { letter };
    refusal.message().chars().map(blank).take(MAX_MESSAGE).collect()
}

fn reported(text: Vec<u8>, media_type: &'static str, refusal: &Refusal) -> Answer {
    let mut answer = Answer::new(whole(text));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(value) = HeaderValue::try_from(answer::word(refusal.reason())) {
        headers.insert(REASON, value);
    }
    answer
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use http_body_util::BodyExt as _;

    use super::super::commands::Reader;
    use super::super::refused::Refused;
    use super::*;

    fn commands(capabilities: &str) -> Commands {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let mut text = Vec::new();
        let line = format!("{one} {two} refs/heads/main\0{capabilities}");
        pktline::line(&mut text, line.as_bytes());
        pktline::flush(&mut text);
        Reader::default().read(&mut BytesMut::from(&text[..])).unwrap().unwrap()
    }

    async fn body(answer: Answer) -> String {
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_refusal_is_said_where_git_reads_it() {
        let refusal = Refusal::from(Refused::DefaultBranch("main".into()));
        let said = "ng refs/heads/main belljar: `main` is the default branch; push another branch \
                    and open a merge request\n";
        let plain = of_push(&commands("report-status"), &refusal).unwrap();
        assert_eq!(plain.headers()[REASON], "branch");
        let plain = body(plain).await;
        assert!(plain.starts_with("000eunpack ok\n") && plain.ends_with("0000"), "{plain}");
        assert!(plain.contains(said), "{plain}");
        let banded = of_push(&commands("report-status-v2 side-band-64k"), &refusal).unwrap();
        assert_eq!(body(banded).await.matches(said).count(), 1);
        assert!(of_push(&commands("quiet"), &refusal).is_none());
        let query = Some("service=git-receive-pack");
        let teller = Teller::of("/a/b/info/refs", query).unwrap();
        let told = body(teller.tell(&refusal).unwrap()).await;
        assert!(told.starts_with("001f# service=git-receive-pack\n0000"), "{told}");
        assert!(told.contains("ERR belljar: `main`"), "{told}");
        assert!(teller.tell(&Refusal::Token).is_none(), "git shows its token only when asked");
    }
}
