//! Functions that another language calls.

/// Exports `fn name(i32) -> i32` under its own name, for a program that loads
/// this code as a shared library. Only integers cross, so nothing that the
/// caller passes can be a wrong pointer.
#[macro_export]
macro_rules! export {
    ($(#[$meta:meta])* fn $name:ident($argument:ident: i32) -> i32 $body:block) => {
        $(#[$meta])*
        // SAFETY: the library exports few names, each with our own prefix.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($argument: i32) -> i32 $body
    };
}
