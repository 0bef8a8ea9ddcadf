//! Which span a call has, for what is told of the call later: the gateway's rows
//! name calls by their sandbox and their number.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::Context;

/// A call of a sandbox; without a number, the sandbox itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Whose {
    pub sandbox: String,
    pub call: Option<u32>,
}

#[derive(Default)]
struct Known {
    contexts: HashMap<Whose, Context>,
    order: VecDeque<Whose>,
}

/// Beyond these the oldest are forgotten; what is told of them then joins no
/// trace.
const MOST: usize = 16_384;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Keeps the span around the caller as this call's.
pub fn remember(whose: Whose) {
    let Some(context) = Context::current() else { return };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.add(whose, context);
}

/// The call's span, or else its sandbox's.
pub fn recall(whose: &Whose) -> Option<Context> {
    if !super::is_on() {
        return None;
    }
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.find(whose)
}

impl Known {
    fn add(&mut self, whose: Whose, context: Context) {
        if self.contexts.insert(whose.clone(), context).is_none() {
            self.order.push_back(whose);
        }
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.contexts.remove(&oldest);
            }
        }
    }

    fn find(&self, whose: &Whose) -> Option<Context> {
        let of_sandbox = || self.contexts.get(&Whose { call: None, ..whose.clone() });
        self.contexts.get(whose).or_else(of_sandbox).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_known_is_its_sandboxs() {
        let whose = |call| Whose { sandbox: "a".to_owned(), call };
        let (sandbox, call) = (Context::root(), Context::root());
        let mut known = Known::default();
        known.add(whose(None), sandbox);
        known.add(whose(Some(1)), call);
        assert_eq!(known.find(&whose(Some(1))), Some(call));
        assert_eq!(known.find(&whose(Some(2))), Some(sandbox));
        assert_eq!(known.find(&Whose { sandbox: "b".to_owned(), call: None }), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let whose = |number: usize| Whose { sandbox: number.to_string(), call: None };
        let mut known = Known::default();
        for number in 0..=MOST {
            known.add(whose(number), Context::root());
        }
        assert_eq!((known.contexts.len(), known.order.len()), (MOST, MOST));
        assert_eq!(known.find(&whose(0)), None);
        assert!(known.find(&whose(MOST)).is_some());
    }
}
