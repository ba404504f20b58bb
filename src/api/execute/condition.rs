//! `If-Match`, and `If-None-Match: *` of a PUT: conditional writes.

use serde_json::{Value, json};

use super::context::RequestContext;
use super::etag::Etag;
use super::request::Preconditions;
use crate::api::action::{Action, BoundRead};
use crate::api::calls::Calls;
use crate::api::read::SourceFormat;
use crate::api::request::Principal;
use crate::base::{Error, Kind, Result};
use crate::store::Tx;

/// The condition of a write: the read of the resource, which may have none.
pub struct IfMatch(Option<BoundRead>);

impl IfMatch {
    /// Returns the condition of a request, if it has one.
    ///
    /// # Errors
    /// 400 if the resource cannot be read with the arguments of the request.
    pub fn of(
        context: &RequestContext,
        arguments: &Value,
        mode: SourceFormat,
    ) -> Result<Option<Self>> {
        let request = &*context.request;
        let route = &request.route;
        if !route.is_conditional_write() || !request.preconditions.limit(route.method) {
            return Ok(None);
        }
        let bound = if let Some(current) = &request.route.compared_with {
            current.bind(false, request.route.path, context.raw(arguments, mode))?
        } else if let Some(reading) = request.reading.as_ref().filter(|reading| reading.has_tag()) {
            // The read takes the organization of the body from its query.
            let query;
            let (arguments, mode) = if request.route.method.has_body() {
                let org_slug = context.hint.org_slug.as_ref();
                query = org_slug.map_or(json!({}), |slug| json!({"orgSlug": slug}));
                (&query, SourceFormat::Query)
            } else {
                (arguments, mode)
            };
            reading.bind(context.raw_of_reading(arguments, mode))?
        } else {
            // A resource without a read has no tag that could match.
            return Ok(Some(IfMatch(None)));
        };
        Ok(match bound.action {
            Action::Read(reading, None) => Some(IfMatch(Some(reading))),
            _ => None,
        })
    }

    /// Compares the resource's current tag with those of the request.
    ///
    /// # Errors
    /// 412 if it is none of them, or if there is a resource where there is to be none.
    pub fn check_preconditions(
        &self,
        wanted: &Preconditions,
        tx: &Tx,
        who: &Principal,
    ) -> Result<()> {
        let Some(reading) = &self.0 else { return Ok(()) };
        let current = reading(&tx.view(), who, &mut Calls::default());
        let tags = &wanted.if_match;
        if tags.is_empty() {
            return match current {
                Ok(_) => Err(exists_already()),
                Err(error) if error.kind() == Kind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
        }
        let tag = Etag::of(&current?.body);
        if tags.iter().any(|tags| tag.is_in(tags, false)) {
            Ok(())
        } else {
            Err(changed_meanwhile())
        }
    }

    /// Refuses a resource without a read, which has no tag to compare.
    ///
    /// # Errors
    /// 412, unless the condition is `*`.
    pub fn require_tag(&self, wanted: &Preconditions) -> Result<()> {
        let tags = &wanted.if_match;
        if self.0.is_none() && !tags.is_empty() && !tags.iter().any(|tags| tags == b"*") {
            return Err(changed_meanwhile());
        }
        Ok(())
    }
}

fn changed_meanwhile() -> Error {
    Error::new(
        Kind::Precondition,
        "changed_meanwhile",
        "it has changed since the ETag in If-Match; read it again and repeat the request",
    )
}

fn exists_already() -> Error {
    Error::new(
        Kind::Precondition,
        "exists_already",
        "it exists already; read it, and repeat the request without If-None-Match to replace it",
    )
}
