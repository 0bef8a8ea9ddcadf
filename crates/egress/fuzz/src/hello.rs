//! Greetings of TLS, read by us and by rustls.

use belljar_egress::client_hello::{After, Again, Hello, LONGEST, NotHello, Reader};
use tokio_rustls::rustls::server::Acceptor;

use super::{Outcome, pieces};

/// However it is cut, we read the same; where rustls accepts it as well, it reads the same name. So
/// it is for what follows: a second greeting is found wherever a naive search finds one.
pub fn hello(input: &[u8]) -> Outcome {
    let mut reader = Reader::default();
    let whole = reader.push(input);
    assert_eq!(read(&pieces(input)), whole, "in pieces");
    assert!(input.len() <= LONGEST || whole != Ok(None), "it ends");
    let Ok(Some(hello)) = whole else { return Outcome::Refused };
    let rest = input.get(reader.seen()..).expect("no more is seen than there is");
    let after = follow(&hello, &[rest]);
    assert_eq!(follow(&hello, &pieces(rest)), after, "behind it, in pieces");
    // A server that wants a second greeting reads it from the next record on.
    if let Some(second) = Reader::default().push(rest).ok().flatten() {
        assert_eq!(after, Ok(After::Hello(second)), "a second greeting");
    }
    let Some((name, alpn)) = by_rustls(input) else { return Outcome::Ours };
    assert_eq!(hello.sni.as_ref().map(ToString::to_string), name.map(|name| name.to_lowercase()));
    assert_eq!(hello.alpn, alpn);
    Outcome::Both
}

/// What comes of the bytes behind a greeting.
fn follow(first: &Hello, pieces: &[&[u8]]) -> Result<After, NotHello> {
    let mut again = Again::after(first);
    let mut pushed = 0;
    for piece in pieces {
        let after = again.push(piece)?;
        if after != After::More {
            return Ok(after);
        }
        pushed += piece.len();
        assert!(again.held() <= pushed, "no more is held back than there is");
    }
    Ok(After::More)
}

fn read(pieces: &[&[u8]]) -> Result<Option<Hello>, NotHello> {
    let mut reader = Reader::default();
    for piece in pieces {
        if let Some(hello) = reader.push(piece)? {
            return Ok(Some(hello));
        }
    }
    Ok(None)
}

/// The name and the protocols; none if rustls refuses the greeting.
fn by_rustls(mut input: &[u8]) -> Option<(Option<String>, Vec<Vec<u8>>)> {
    let mut acceptor = Acceptor::default();
    loop {
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let name = hello.server_name().map(str::to_owned);
                let alpn = hello.alpn().map(|list| list.map(<[u8]>::to_vec).collect());
                return Some((name, alpn.unwrap_or_default()));
            }
            Ok(None) => {}
            Err(_) => return None,
        }
        match acceptor.read_tls(&mut input) {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
