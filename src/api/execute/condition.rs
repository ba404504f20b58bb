//! `If-Match`: doing something only to what is as the caller saw it.

use serde_json::{Value, json};

use super::context::RequestContext;
use super::etag::Etag;
use crate::api::action::{Action, BoundRead};
use crate::api::calls::Calls;
use crate::api::read::SourceFormat;
use crate::api::request::Principal;
use crate::api::scope::OrgHint;
use crate::base::{Error, Kind, Result};
use crate::store::Tx;

/// What `If-Match` expects.
pub struct IfMatch {
    tags: Vec<Vec<u8>>,
    /// How the thing is read; `None` if it cannot be.
    reading: Option<BoundRead>,
}

impl IfMatch {
    /// What a request expects, if it does.
    ///
    /// # Errors
    /// 400 where the thing cannot be read with what was sent.
    pub fn of(
        context: &RequestContext,
        hint: &OrgHint,
        arguments: &Value,
        mode: SourceFormat,
    ) -> Result<Option<Self>> {
        let request = context.request;
        if request.preconditions.if_match.is_empty() || !request.route.is_conditional_write() {
            return Ok(None);
        }
        let tags = request.preconditions.if_match.iter().map(|tags| tags.to_vec()).collect();
        let Some(reading) = request.reading.filter(|reading| reading.has_tag()) else {
            // What cannot be read has no tag that could match.
            return Ok(Some(IfMatch { tags, reading: None }));
        };
        // The organization that a body names, a reading's query does.
        let of_body;
        let (arguments, mode) = if request.route.method.has_body() {
            of_body = hint.org_slug.as_ref().map_or(json!({}), |slug| json!({"orgSlug": slug}));
            (&of_body, SourceFormat::Query)
        } else {
            (arguments, mode)
        };
        match reading.bind(context.raw_of_reading(arguments, mode))?.action {
            Action::Read(reading, None) => Ok(Some(IfMatch { tags, reading: Some(reading) })),
            _ => Ok(None),
        }
    }

    /// 412 unless the thing is as one of the tags says, if it can be read.
    pub fn check_preconditions(&self, tx: &Tx, who: &Principal) -> Result<()> {
        let Some(reading) = &self.reading else { return Ok(()) };
        let tag = Etag::of(&reading(&tx.view(), who, &mut Calls::default())?.body);
        if self.tags.iter().any(|tags| tag.is_in(tags, false)) {
            Ok(())
        } else {
            Err(changed_meanwhile())
        }
    }

    /// 412 for what cannot be read: it has no tag that could be named.
    pub fn require_tag(&self) -> Result<()> {
        if self.reading.is_none() && !self.tags.iter().any(|tags| tags == b"*") {
            return Err(changed_meanwhile());
        }
        Ok(())
    }
}

fn changed_meanwhile() -> Error {
    Error::new(
        Kind::Precondition,
        "changed_meanwhile",
        "it is not as If-Match expects; read it again and decide anew",
    )
}
