//! Which span of which trace: W3C's `traceparent`.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::Span;
use tracing_subscriber::registry::LookupSpan as _;

use crate::trail::Marks;

/// A span, as others are told of it. Prints as a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    /// Whether whoever began the trace wants it kept.
    pub(crate) sampled: bool,
}

impl Context {
    /// Reads the header `traceparent`. What is not one is as good as none:
    /// anybody may have sent it.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace) = (hex(parts.next()?, 2)?, hex(parts.next()?, 32)?);
        let (span, flags) = (hex(parts.next()?, 16)?, hex(parts.next()?, 2)?);
        // Only later versions may go on; 255 is none at all.
        let fits = version != 0xff && (version != 0 || parts.next().is_none());
        let span = u64::try_from(span).ok()?;
        let valid = fits && trace != 0 && span != 0;
        valid.then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }

    /// A span whose ids are known, as those of a run are. Zero is no id, so it counts as one.
    pub fn known(trace: u128, span: u64, is_sampled: bool) -> Self {
        Self { trace: trace.max(1), span: span.max(1), sampled: is_sampled }
    }

    pub(crate) fn root() -> Self {
        let trace = u128::from(random()) << 64 | u128::from(random());
        Self { trace, span: random(), sampled: true }
    }

    pub(crate) fn child(self) -> Self {
        Self { span: random(), ..self }
    }

    pub(crate) fn trace_hex(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Of the span around the caller; `None` when nothing is traced.
    pub fn current() -> Option<Self> {
        if !super::is_on() {
            return None;
        }
        let of_span = Span::current().with_subscriber(|(id, dispatch)| {
            let registry = dispatch.downcast_ref::<tracing_subscriber::Registry>()?;
            let span = registry.span(id)?;
            let extensions = span.extensions();
            extensions.get::<Marks>()?.open.as_ref().map(|open| open.context)
        });
        of_span.flatten()
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// The `traceparent` of the span around the caller, to be sent on with requests
/// to others or given to spans that outlive it.
pub fn here() -> Option<String> {
    Context::current().map(|context| context.to_string())
}

/// So many digits, in lower case: others are not allowed.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(lower) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

/// Never zero, and the same number hardly ever twice. Not a secret: these ids
/// open nothing.
pub(super) fn random() -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_written_as_it_was() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = Context::parse(text).unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), text);
        let child = context.child();
        assert_eq!((child.trace, child.sampled), (context.trace, true));
        assert_ne!(child.span, context.span);
        let later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-what-else";
        assert!(!Context::parse(later).unwrap().sampled);
    }

    #[test]
    fn what_is_no_header_is_not_believed() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Context::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn no_two_spans_have_one_id() {
        let ids: std::collections::HashSet<_> = (0..10_000).map(|_| random()).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(!ids.contains(&0));
    }
}
