//! Growing pauses while a server is away.

use std::time::Duration;

use super::refusal::Refusal;
use super::stop::Stop;
use crate::cli::failure::Failure;
use crate::cli::output;

/// The longest pause: a server that comes back is found within half a minute.
const MAX_SECS: u64 = 30;

/// Pauses of 1, 2, 4 … seconds.
#[derive(Default)]
pub struct Backoff {
    pauses: u32,
}

impl Backoff {
    /// Whether the last request was refused.
    pub fn is_pausing(&self) -> bool {
        self.pauses > 0
    }

    /// Begins anew after an answer, and says so if there was none before.
    pub fn end(&mut self) {
        if self.is_pausing() {
            output::status("the server answers again");
        }
        self.pauses = 0;
    }

    /// Pauses after a refusal that may pass, at least as long as the server asks; whether the
    /// process goes on.
    ///
    /// # Errors
    /// The refusal, if it does not pass by itself.
    pub async fn pause(&mut self, refusal: Refusal, stop: &mut Stop) -> Result<bool, Failure> {
        if !refusal.is_temporary() {
            return Err(refusal.into());
        }
        let asked = refusal.problem().and_then(|problem| problem.retry_after).unwrap_or_default();
        let secs = (1 << self.pauses.min(5)).max(asked).min(MAX_SECS);
        if !self.is_pausing()
            && let Failure::Failed(why) = Failure::from(refusal)
        {
            output::status(&format!("{why}; trying again"));
        }
        self.pauses += 1;
        tokio::select! {
            () = stop.asked() => Ok(false),
            () = tokio::time::sleep(Duration::from_secs(secs)) => Ok(true),
        }
    }
}
