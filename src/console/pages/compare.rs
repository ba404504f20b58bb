//! Two versions side by side.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;

use crate::base::{Error, Kind, Result};
use crate::console::diff::{self, Row};
use crate::console::field::Field;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{self, Place, VersionRow};
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/compare").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/compare")
        .get(|visit| Box::pin(show(visit))),
];

/// Rows of a page.
const ROWS: usize = 1000;

#[derive(Template)]
#[template(path = "compare.html")]
struct Compare {
    frame: Frame,
    place: Place,
    /// What is compared with what.
    fields: [Field; 2],
    /// None as long as there is nothing to compare, or it cannot be.
    difference: Option<Difference>,
    rows: Vec<Row>,
    /// The page after this one, if there is more.
    next: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    from: String,
    to: String,
    from_message: Nullable<String>,
    to_message: Nullable<String>,
    diff: String,
    variables: Variables,
}

#[derive(Deserialize)]
struct Variables {
    added: Vec<String>,
    removed: Vec<String>,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let api = &visit.api;
    let artifact = place.get(api).await?;
    let newest = place.query(&[("limit", "100")]);
    let rows: List<VersionRow> = api.get("/registries/artifact-versions", &newest).await?;
    let mut versions: Vec<_> = rows.items.into_iter().map(|row| row.version).collect();
    versions.dedup();
    let to = visit.query.some("to").unwrap_or(&artifact.latest_version).to_string();
    let from = visit.query.some("from").map(String::from);
    let from = from.unwrap_or_else(|| versions.get(1).unwrap_or(&to).clone());
    let (difference, error) = compare(visit, &place, &from, &to).await?;
    let all = difference.as_ref().map(|one| diff::rows(&one.diff)).unwrap_or_default();
    let part: usize = visit.query.get("part").parse().unwrap_or(0);
    let count = all.len();
    let end = part.saturating_add(1).saturating_mul(ROWS);
    let fields =
        [place::version("from", "From").preset(from), place::version("to", "To").preset(to)];
    let frame = place.crumbs(visit, visit.frame("Compare versions")).failed(error.as_ref());
    let frame = frame.picking(visit, &fields.each_ref()).await?;
    let page = Compare {
        // The prompt is there, whatever it is asked for.
        frame: Frame { status: StatusCode::OK, ..frame },
        rows: all.into_iter().skip(part.saturating_mul(ROWS)).take(ROWS).collect(),
        next: (end < count).then(|| part + 1),
        place,
        fields,
        difference,
    };
    render(page.frame.status, &page)
}

async fn compare(
    visit: &Visit,
    place: &Place,
    from: &str,
    to: &str,
) -> Result<(Option<Difference>, Option<Error>)> {
    let query = place.query(&[("from", from), ("to", to)]);
    match visit.api.get("/registries/artifact-versions/diff", &query).await {
        Ok(difference) => Ok((Some(difference), None)),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid) => {
            Ok((None, Some(error)))
        }
        Err(error) => Err(error),
    }
}
