//! Pages of a provider's list, whatever pages the provider itself has.

use super::client::ProviderClient;
use crate::base::{Error, Result};

/// The pages of a provider that are fetched one after the other for one page of ours. A list without an
/// end must not occupy us for long; 5 pages of 100 are more than a request can ask for.
const MAX_PAGES: usize = 5;

/// The longest token of a provider that a cursor of ours holds.
const MAX_TOKEN_BYTES: usize = 4096;

/// Where a page begins: at a page of the provider, after some of its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// What the provider calls its page; empty for its first.
    token: String,
    skip: usize,
}

impl Position {
    /// What the provider calls the page; empty for its first.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The bytes of a cursor.
    pub fn to_bytes(&self) -> Vec<u8> {
        format!("{} {}", self.skip, self.token).into_bytes()
    }

    /// The position that a cursor holds, or that of the first page.
    ///
    /// # Errors
    /// 400 for a cursor of another release.
    pub fn read(cursor: Option<&[u8]>) -> Result<Self> {
        let Some(cursor) = cursor else { return Ok(Position::default()) };
        let text = std::str::from_utf8(cursor).ok().and_then(|text| text.split_once(' '));
        let position = text.and_then(|(skip, token)| {
            Some(Position { token: token.into(), skip: skip.parse().ok()? })
        });
        position.ok_or_else(|| Error::invalid_at("cursor", "is not a cursor of this list"))
    }
}

/// A page of a provider.
pub struct ProviderPage<T> {
    pub items: Vec<T>,
    /// What the provider calls the next one.
    pub next: Option<String>,
}

/// A page of ours.
#[derive(Debug)]
pub struct Listed<T> {
    pub items: Vec<T>,
    /// Where the next one begins, if there is more.
    pub next: Option<Position>,
}

impl<T> Listed<T> {
    /// What is returned while an answer is pending: nobody reads it.
    pub fn pending() -> Self {
        Listed { items: Vec::new(), next: None }
    }
}

/// Returns at most `limit` items from a position on, and `None` while an answer is pending. `page`
/// fetches a page of the provider by its token, with so many items if it has them. A page of ours may
/// be shorter although more follows: at most `more_pages` are fetched beyond the usual number.
///
/// # Errors
/// Those of `page`; 502 if a token is longer than a cursor may be.
pub fn read<'a, T>(
    client: &mut ProviderClient<'a>,
    from: &Position,
    limit: usize,
    more_pages: usize,
    mut page: impl FnMut(&mut ProviderClient<'a>, &str, usize) -> Result<Option<ProviderPage<T>>>,
) -> Result<Option<Listed<T>>> {
    let mut items = Vec::new();
    let Position { mut token, mut skip } = from.clone();
    for _ in 0..MAX_PAGES + more_pages {
        let wanted = limit - items.len();
        let Some(found) = page(client, &token, skip.saturating_add(wanted))? else {
            return Ok(None);
        };
        let end = skip.saturating_add(wanted);
        let is_cut = end < found.items.len();
        items.extend(found.items.into_iter().skip(skip).take(wanted));
        if is_cut {
            return Ok(Some(Listed { items, next: Some(Position { token, skip: end }) }));
        }
        // A list that does not turn its page has none.
        let Some(next) = found.next.filter(|next| !next.is_empty() && *next != token) else {
            return Ok(Some(Listed { items, next: None }));
        };
        if next.len() > MAX_TOKEN_BYTES {
            return Err(client.malformed());
        }
        (token, skip) = (next, 0);
        if items.len() >= limit {
            break;
        }
    }
    Ok(Some(Listed { items, next: Some(Position { token, skip }) }))
}
