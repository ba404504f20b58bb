//! How the log says that work failed which the server does by itself.

/// Logs that such work failed and will be tried again: as an error, but as a warning where others only
/// were in its way for too long, which passes by itself, or another server does it now.
macro_rules! log_failure {
    ($error:ident, $($said:tt)+) => {
        if $error.code() == "overloaded" || $crate::store::engine::is_lease_lost(&$error) {
            tracing::warn!(%$error, $($said)+);
        } else {
            tracing::error!(%$error, $($said)+);
        }
    };
}
pub(crate) use log_failure;
