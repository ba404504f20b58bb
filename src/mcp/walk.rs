//! A walk over the prompts and promptlets of all registries that a key may use, page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::Api;
use super::failure::{Failure, INVALID_PARAMS};
use super::strict::{Artifact, List, Registry};
use crate::base::Result;

/// The items of a page, as of the API's own lists.
const PAGE: usize = 50;

/// The registries that a page looks into, so that many empty ones do not make it slow.
const MAX_REGISTRIES: usize = 20;

/// Where a walk goes on. It names a place of the API's lists by their own cursors, which are checked
/// there.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Place {
    /// The cursor of the list of registries, after the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_registry: Option<String>,
    /// The registry whose list goes on, and the cursor of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<(String, String, String)>,
}

/// A prompt or promptlet with its registry.
pub struct Found {
    pub registry: Registry,
    pub artifact: Artifact,
}

/// The next page: what is found, and the cursor of the page after it.
///
/// # Errors
/// [`INVALID_PARAMS`] for a cursor that is none; those of the lists.
pub async fn page(
    api: &Api,
    params: &Value,
    artifact_type: Option<&str>,
) -> Result<(Vec<Found>, Option<String>), Failure> {
    let mut place = place_of(params)?;
    let mut found = Vec::new();
    for _ in 0..MAX_REGISTRIES {
        let (registry, cursor) = match place.within.take() {
            Some((reference, slug, cursor)) => (Registry { reference, slug }, Some(cursor)),
            None => match next_registry(api, &mut place).await? {
                Some(registry) => (registry, None),
                None => return Ok((found, None)),
            },
        };
        let mut arguments = json!({
            "registryRef": registry.reference, "limit": PAGE - found.len(), "cursor": cursor,
        });
        if let Some(artifact_type) = artifact_type {
            arguments["artifactType"] = json!(artifact_type);
        }
        let list: List<Artifact> = api.get("/registries/artifacts", &[], arguments).await?;
        let Registry { reference, slug } = registry;
        found.extend(list.items.into_iter().map(|artifact| Found {
            registry: Registry { reference: reference.clone(), slug: slug.clone() },
            artifact,
        }));
        place.within = list.next_cursor.map(|cursor| (reference, slug, cursor));
        if place.within.is_none() && place.next_registry.is_none() {
            return Ok((found, None));
        }
        if found.len() == PAGE {
            break;
        }
    }
    let cursor = json!(place).to_string();
    Ok((found, Some(BASE64.encode(cursor))))
}

/// The next registry; none after the last one.
async fn next_registry(api: &Api, place: &mut Place) -> Result<Option<Registry>> {
    let arguments = json!({"limit": 1, "cursor": place.next_registry});
    let list: List<Registry> = api.get("/registries", &[], arguments).await?;
    place.next_registry = list.next_cursor;
    Ok(list.items.into_iter().next())
}

/// The place in the cursor of a request.
pub(super) fn place_of(params: &Value) -> Result<Place, Failure> {
    let Some(cursor) = params.get("cursor") else { return Ok(Place::default()) };
    let place = cursor.as_str().and_then(|cursor| {
        let text = BASE64.decode(cursor).ok()?;
        serde_json::from_slice(&text).ok()
    });
    place.ok_or_else(|| {
        Failure::new(INVALID_PARAMS, "params.cursor is not a cursor of this list".into())
    })
}
