use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::time::timeout;

use super::*;

const ZONE: &str = r#"{
    "rebinds.test": [{ "addresses": ["203.0.113.7"] }, { "addresses": ["127.0.0.1"] }],
    "mixed.test": [{ "addresses": ["203.0.113.7", "10.0.0.1", "::1"] }],
    "alias.test": [{ "alias": ["inner.test", ["192.0.2.1"]] }],
    "long.test": [{ "over-tcp": ["192.0.2.9"] }],
    "gone.test": ["missing"],
    "broken.test": ["failure"],
    "quiet.test": ["silence"]
}"#;

async fn start() -> Names {
    let zone = serde_json::from_str(ZONE).unwrap();
    Names::start((Ipv4Addr::LOCALHOST, 0).into(), zone).await.unwrap()
}

fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

async fn ask(names: &Names, name: &str, kind: u16) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.send_to(&question(name, kind), names.address()).await.unwrap();
    let mut answer = vec![0; 512];
    // Silence is believed sooner than slowness.
    let patience = Duration::from_millis(if name == "quiet.test" { 300 } else { 20_000 });
    let read = timeout(patience, socket.recv(&mut answer)).await.ok()?.unwrap();
    answer.truncate(read);
    assert_eq!(answer[..2], [0xab, 0xcd]);
    Some(answer)
}

/// How many records there are, and the last bytes of the last one.
fn outcome(answer: &[u8]) -> (u8, &[u8]) {
    (answer[7], &answer[answer.len() - 4..])
}

#[tokio::test]
async fn answers_come_in_their_order_and_the_last_one_stays() {
    let names = start().await;
    for wanted in [[203, 0, 113, 7], [127, 0, 0, 1], [127, 0, 0, 1]] {
        let answer = ask(&names, "Rebinds.TEST", 1).await.unwrap();
        assert_eq!(outcome(&answer), (1, &wanted[..]));
    }
    // Each type has its own place in the sequence, and no address of this one.
    assert_eq!(ask(&names, "rebinds.test", 28).await.unwrap()[7], 0);
    assert_eq!(names.queries().len(), 4);
}

#[tokio::test]
async fn addresses_are_those_of_the_type() {
    let names = start().await;
    assert_eq!(outcome(&ask(&names, "mixed.test", 1).await.unwrap()), (2, &[10, 0, 0, 1][..]));
    assert_eq!(outcome(&ask(&names, "mixed.test", 28).await.unwrap()), (1, &[0, 0, 0, 1][..]));
    assert_eq!(outcome(&ask(&names, "alias.test", 1).await.unwrap()), (2, &[192, 0, 2, 1][..]));
}

#[tokio::test]
async fn failures_say_which() {
    let names = start().await;
    for (name, code) in [("gone.test", 3), ("broken.test", 2), ("unheard.of", 3)] {
        assert_eq!(ask(&names, name, 1).await.unwrap()[3] & 15, code, "{name}");
    }
    assert!(ask(&names, "quiet.test", 1).await.is_none());
    assert!(names.was_asked("unheard.of") && names.was_asked("of"));
    assert!(!names.was_asked("heard.of") && !names.was_asked("mixed.test"));
}

#[tokio::test]
async fn what_is_too_long_comes_over_tcp() {
    let names = start().await;
    let cut = ask(&names, "long.test", 1).await.unwrap();
    assert_eq!((cut[2] & 2, cut[7]), (2, 0));
    let mut stream = TcpStream::connect(names.address()).await.unwrap();
    let message = question("long.test", 1);
    stream.write_u16(u16::try_from(message.len()).unwrap()).await.unwrap();
    stream.write_all(&message).await.unwrap();
    let mut answer = vec![0; stream.read_u16().await.unwrap().into()];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(outcome(&answer), (1, &[192, 0, 2, 9][..]));
    let transports: Vec<_> = names.queries().iter().map(|query| query.transport).collect();
    assert_eq!(transports, [Transport::Udp, Transport::Tcp]);
}
