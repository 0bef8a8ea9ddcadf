//! What our services say to each other.
//!
//! Each message is JSON: it is read by people when something is wrong, and none
//! is on a path where its size matters. Descriptors travel beside it where the
//! two services share a host.

pub mod behalf;
pub mod encoded;
pub mod enrolment;
pub mod gateway;
pub mod member;
pub mod platform;
