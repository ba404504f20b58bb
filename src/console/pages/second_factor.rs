//! `/account/second-factor`: turns one's second factor on and off.
//!
//! The secret is in the answer to the form that begins it, and comes along with the code, so that the
//! page can be shown again if that was wrong. The recovery codes are in the answer to the right one.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, QrCode, Result, Time};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::signed_in("/account/second-factor")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

const PATH: &str = "/auth/second-factor";

#[derive(Template)]
#[template(path = "second_factor.html")]
struct SecondFactorPage {
    frame: Frame,
    email: String,
    factor: SecondFactor,
    /// What the app is told, while it waits for its first code.
    begun: Option<Begun>,
    /// The codes that are shown once.
    recovery_codes: Vec<String>,
}

/// The second factor, as the API describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecondFactor {
    /// Since when it is on.
    pub on_since: Nullable<Time>,
    /// How many recovery codes are left.
    pub recovery_codes_left: usize,
    /// When an admin has reset it.
    pub reset_at: Nullable<Time>,
}

/// Reads the visitor's second factor.
pub async fn own(visit: &Visit) -> Result<SecondFactor> {
    visit.api.get(PATH, &[]).await
}

struct Begun {
    uri: String,
    /// The secret in groups of four, as people type it.
    secret: String,
    qr: QrCode,
}

impl Begun {
    /// What an app is told by a URI; `None` if it is none.
    fn of(uri: &str) -> Option<Self> {
        let (_, query) = uri.strip_prefix("otpauth://totp/")?.split_once('?')?;
        let secret = query.split('&').find_map(|pair| pair.strip_prefix("secret="))?;
        let letters: Vec<char> = secret.chars().collect();
        let groups = letters.chunks(4).map(|group| group.iter().collect::<String>());
        let secret = groups.collect::<Vec<_>>().join(" ");
        Some(Begun { qr: QrCode::of(uri)?, uri: uri.into(), secret })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BegunFactor {
    otpauth_uri: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnedOn {
    recovery_codes: Vec<String>,
}

fn page(visit: &Visit, title: &str, error: Option<&Error>) -> SecondFactorPage {
    let frame = visit.frame(title).crumb("Your account", "/account").failed(error);
    let email = visit.signed_in().user.email.clone();
    let factor =
        SecondFactor { on_since: Nullable(None), recovery_codes_left: 0, reset_at: Nullable(None) };
    SecondFactorPage { frame, email, factor, begun: None, recovery_codes: Vec::new() }
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let mut page = page(visit, "Second factor", error.as_ref());
    page.factor = own(visit).await?;
    render(page.frame.status, &page)
}

/// Asks for the first code; where to begin again if the form has no secret.
async fn ask(visit: &Visit, uri: &str, error: Option<Error>) -> Result<Reply> {
    let begun = Begun::of(uri);
    if begun.is_none() {
        return show(visit, error).await;
    }
    let mut page = page(visit, "Second factor", error.as_ref());
    page.begun = begun;
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let (password, code) = (visit.form.get("password"), visit.form.get("code"));
    match visit.form.get("action") {
        "begin" => match visit.api.post::<BegunFactor>(PATH, json!({"password": password})).await {
            Ok(begun) => ask(visit, &begun.otpauth_uri, None).await,
            Err(error) => show(visit, visit.failed(error)?).await,
        },
        "confirm" => {
            let path = format!("{PATH}/confirm");
            match visit.api.post::<TurnedOn>(&path, json!({"code": code})).await {
                Ok(TurnedOn { recovery_codes }) => {
                    let page = page(visit, "Recovery codes", None);
                    let page = SecondFactorPage { recovery_codes, ..page };
                    render(page.frame.status, &page)
                }
                Err(error) => {
                    let is_over = error.code() == "second_factor_not_begun";
                    let uri = if is_over { "" } else { visit.form.get("uri") };
                    ask(visit, uri, visit.failed(error)?).await
                }
            }
        }
        "off" => {
            let body = json!({"password": password, "code": code});
            match visit.api.post::<Value>(&format!("{PATH}/off"), body).await {
                Ok(_) => Ok(visit.done("/account", Flash::SecondFactorOff)),
                Err(error) => show(visit, visit.failed(error)?).await,
            }
        }
        _ => show(visit, None).await,
    }
}
