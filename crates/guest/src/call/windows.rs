//! A call whose host has changed: another one that knows it, or none.

use belljar_guest_proto::WINDOW;
use rustix::io::Errno;

use super::{Call, PIECE};

impl Call {
    /// Begins anew with a host that knows this call, and none of its windows.
    pub(crate) fn renew(&mut self) {
        self.credit = WINDOW;
        self.uncredited = self.input.len();
    }

    /// Lets it run on without anyone to hear of it.
    pub(crate) fn disown(&mut self) {
        self.disowned = true;
        self.uncredited = self.input.len();
        self.held.clear();
        self.report = None;
    }

    /// Reads what nobody will ask for: a pipe that is never read would hold its
    /// writer up for ever.
    pub(super) fn throw_output_away(&mut self) {
        let mut piece = [0u8; PIECE];
        for slot in [&mut self.stdout, &mut self.stderr, &mut self.stream] {
            let Some(stream) = slot else { continue };
            match rustix::io::read(&*stream, &mut piece) {
                Ok(0) => *slot = None,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => *slot = None,
            }
        }
        let closed = self.stdout.is_none() && self.stderr.is_none();
        if closed && (self.exit.is_some() || (self.adopted && self.stream.is_none())) {
            self.exit_told = true;
            self.eof_told = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::wire::Wire;

    fn call() -> (Call, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let call = Call::new(1, None, [None, Some(OwnedFd::from(ours)), None]).unwrap();
        (call, theirs)
    }

    fn wire() -> (Wire, UnixStream) {
        let (stream, host) = UnixStream::pair().unwrap();
        (Wire::new(stream.into()).unwrap(), host)
    }

    #[test]
    fn output_that_nobody_hears_is_read_and_not_sent() {
        let (mut call, mut writer) = call();
        let (mut wire, _host) = wire();
        call.disown();
        writer.set_nonblocking(true).unwrap();
        let mut written = 0;
        while written < 4 * WINDOW as usize {
            written += writer.write(&[7; 4096]).unwrap_or(0);
            call.pump_output(1, &mut wire, None);
        }
        assert!(!wire.wants_to_send());
        drop(writer);
        while call.stdout.is_some() {
            call.pump_output(1, &mut wire, None);
        }
        assert!(!call.is_over(), "its process has not ended");
    }

    #[test]
    fn input_of_another_life_is_not_credited_again() {
        let (mut call, _writer) = call();
        let (mut wire, host) = wire();
        let (stdin, mut reader) = UnixStream::pair().unwrap();
        call.stdin = Some(stdin.into());
        assert!(call.take_input(b"old"));
        call.renew();
        assert!(call.take_input(b"newer"));
        call.pump_input(9, &mut wire);
        wire.flush().unwrap();
        let mut got = [0; 8];
        std::io::Read::read_exact(&mut reader, &mut got).unwrap();
        assert_eq!(&got, b"oldnewer");
        let mut decoder = belljar_guest_proto::Decoder::default();
        let count = std::io::Read::read(&mut &host, decoder.space()).unwrap();
        decoder.filled(count);
        let (header, body) = decoder.next_frame().unwrap().unwrap();
        let credit = belljar_guest_proto::FromGuest::decode(header, body);
        assert_eq!(credit, Ok(belljar_guest_proto::FromGuest::Credit(5)));
    }
}
