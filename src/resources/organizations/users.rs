//! The signed-in user's account: name, picture, password
//! (reference: identity-and-rights, "Sessions").

use schemars::JsonSchema;
use serde::Deserialize;

use super::sessions::{UserInfo, end_other_sessions, is_unchanged, require_session};
use crate::api::{Attempt, Empty, HashPlan, Input, Req, Resource, Route, op};
use crate::auth::passwords::{HashRequest, HashResult, Password};
use crate::auth::{SESSION, User};
use crate::base::{Error, HttpUrl, Id, Issue, Name, Nullable, Result};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send ────────────────────────────────────────────────────────

/// Changes to the signed-in user; absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"name": "Ada Lovelace"}],
))]
struct UserPatch {
    name: Option<Name>,
    /// The https URL of a picture; `null` removes it.
    #[serde(default)]
    #[schemars(extend("pattern" = "^[Hh][Tt][Tt][Pp][Ss]:"))]
    image: Nullable<HttpUrl>,
}

impl Input for UserPatch {
    /// Requires https: web pages show the picture to other users, who must not fetch it in clear
    /// text.
    fn check(&self, issues: &mut Vec<Issue>) {
        let scheme = self.image.value().and_then(|url| url.split_once(':')).map(|(s, _)| s);
        if scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case("https")) {
            issues.push(Issue::new("image", "must be an https URL"));
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PasswordChange")]
#[schemars(extend(
    "examples" = [{"currentPassword": "seven green bottles",
        "newPassword": "another horse battery"}],
))]
struct NewPassword {
    /// The password until now.
    current_password: String,
    /// The password from now on, of at least 12 characters.
    new_password: Password,
}
impl Input for NewPassword {}

// ── Operations ───────────────────────────────────────────────────────────────

fn get(view: &View, req: &Req) -> Result<UserInfo> {
    Ok(UserInfo::of(&view.fetch(&req.identity().user)?))
}

fn update(tx: &mut Tx, req: &Req<(), UserPatch>) -> Result<UserInfo> {
    let old: User = tx.fetch(&req.identity().user)?;
    let mut user = old.clone();
    if let Some(name) = &req.input.name {
        user.name = name.clone();
    }
    match &req.input.image {
        Nullable::Absent => {}
        Nullable::Clear => user.image = None,
        Nullable::Set(url) => user.image = Some(url.to_string()),
    }
    tx.replace(&old, &user)?;
    Ok(UserInfo::of(&user))
}

fn prepare(view: &View, req: &Req<(), NewPassword>) -> Result<HashPlan> {
    let user: User = view.fetch(&req.identity().user)?;
    let verify = Some((req.input.current_password.clone(), user.password));
    let make = Some(req.input.new_password.to_string());
    // The session proves who it is, so only attempts from the same address count: otherwise others
    // could prevent the change by signing in with a wrong password.
    let attempt = Some(Attempt::Email(user.email, true));
    Ok(HashPlan { hashing: HashRequest { verify, make }, attempt })
}

/// Replaces the password and ends the user's other sessions. Their API keys stay valid: they do not
/// depend on the password, and are revoked separately.
fn change_password(
    tx: &mut Tx,
    req: &Req<(), NewPassword>,
    hashed: &HashResult,
) -> Result<(Empty, Id<User>)> {
    let old: User = tx.fetch(&req.identity().user)?;
    if !is_unchanged(&old, hashed) {
        return Err(Error::forbidden("wrong_password", "the current password is wrong"));
    }
    let new = User { password: hashed.made.clone(), ..old.clone() };
    let new = end_other_sessions(tx, new, require_session(req.identity()))?;
    tx.replace(&old, &new)?;
    Ok((Empty {}, old.id))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/auth/user", SESSION, "user.get", op::read(get))
            .about("Get the signed-in user"),
        Route::patch("/auth/user", SESSION, "user.update", op::write(update))
            .about("Update the signed-in user's name or picture"),
        Route::post(
            "/auth/password",
            SESSION,
            "user.change_password",
            op::hash(prepare, change_password),
        )
        .no_replay()
        .about("Change the password, ending all other sessions"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PASSWORD, hashing, identity_of, session, signed_in, with_password};
    use super::*;
    use crate::auth::{SESSION_SECS, Session, Tokens};
    use crate::base::Kind;
    use crate::resources::testing::Fixture;
    use serde_json::{Value, json};

    fn passwords(current: &str, new: &str) -> NewPassword {
        let body = json!({"currentPassword": current, "newPassword": new});
        Fixture::input(body).unwrap()
    }

    #[test]
    fn changing_the_password_ends_all_other_sessions() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let (current, other) = (session(&fixture.store, &ada), session(&fixture.store, &ada));
        let who = signed_in(&fixture.store, &current);

        let wrong = passwords("wrong horse", "battery staple");
        let refused = hashing(&fixture.store, &who, prepare, change_password, wrong).err().unwrap();
        assert_eq!(refused.kind(), Kind::Forbidden);
        assert!(identity_of(&fixture.store, &other).is_ok());

        let right = || passwords(PASSWORD, "battery staple");
        hashing(&fixture.store, &who, prepare, change_password, right()).unwrap();
        assert!(identity_of(&fixture.store, &current).is_ok());
        assert!(identity_of(&fixture.store, &other).is_err());
        let again = hashing(&fixture.store, &who, prepare, change_password, right());
        assert_eq!(again.err().unwrap().kind(), Kind::Forbidden);
    }

    #[test]
    fn a_password_is_changed_whatever_the_number_of_sessions() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let mine = session(&fixture.store, &ada);
        let stolen: Vec<_> = (0..7)
            .flat_map(|_| {
                let user = ada.id;
                let thousand = move |tx: &mut Tx| {
                    let (created_at, generation) = (tx.now(), 0);
                    let expires_at = created_at.plus_secs(SESSION_SECS);
                    (0..1000)
                        .map(|_| {
                            let id = tx.new_id();
                            let session = Session { id, user, generation, created_at, expires_at };
                            tx.insert(&session)?;
                            Ok(session)
                        })
                        .collect::<Result<Vec<_>>>()
                };
                fixture.store.write_blocking(Id::NIL, thousand).unwrap()
            })
            .collect();
        let tokens = Tokens::new(fixture.store.keys());
        let is_valid =
            |session| identity_of(&fixture.store, &tokens.issue(session).unwrap()).is_ok();
        assert!(is_valid(&stolen[0]) && is_valid(&stolen[6999]));
        let who = signed_in(&fixture.store, &mine);
        let new = passwords(PASSWORD, "battery staple");
        hashing(&fixture.store, &who, prepare, change_password, new).unwrap();
        assert!(!stolen.iter().step_by(500).any(is_valid) && !is_valid(&stolen[6999]));
        assert!(identity_of(&fixture.store, &mine).is_ok());
        fixture.assert_sound();
    }

    #[test]
    fn a_picture_is_an_https_url_or_none() {
        let fixture = Fixture::new();
        let change = |body: Value| {
            fixture.write_as(&fixture.owner, update, (), Fixture::input::<UserPatch>(body)?)
        };
        let shown = change(json!({"image": "https://a.test/ada.png"})).unwrap();
        assert_eq!(shown.image.as_deref(), Some("https://a.test/ada.png"));
        for bad in ["http://a.test/ada.png", "ada.png", ""] {
            let refused = change(json!({ "image": bad })).err().unwrap();
            assert_eq!(refused.issues()[0].path, "image", "{bad}");
        }
        let renamed = change(json!({"name": "Ada L."})).unwrap();
        assert_eq!((renamed.name.as_str(), renamed.image.is_some()), ("Ada L.", true));
        assert_eq!(change(json!({"name": null, "image": null})).unwrap().image, None);
    }
}
