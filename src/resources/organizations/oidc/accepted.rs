//! In which sessions accounts of providers are linked and unlinked, where an organization of the person
//! requires a provider.
//!
//! A link is a way into every organization that accepts its provider. So a session that one of them refuses
//! makes none there: whoever administers another provider, or knows the password, is in such a session.

use crate::auth::oidc::Oidc;
use crate::auth::{Organization, RequiredProvider, Session, User, user_organizations};
use crate::base::{Error, Id, Result};
use crate::resources::organizations::sign_in_link::SignInLink;
use crate::store::{ListSource, View};

/// Requires that a session may link an account of this issuer. With a password the first account at a
/// provider that an organization requires is linked in any session: there is no other way to it.
///
/// # Errors
/// 403 in a session that an organization of the user does not let in, which may accept the account.
pub(super) fn require_to_link(
    view: &View,
    oidc: &Oidc,
    (user, session): (&User, Id<Session>),
    issuer: &str,
) -> Result<()> {
    let links: Vec<SignInLink> = view.all(ListSource::TABLE, &user.id)?;
    let concerns = |required: &RequiredProvider| {
        let is_first =
            !links.iter().any(|link| link.issuer == issuer || accepts(oidc, required, link));
        may_accept(oidc, required, issuer) && (user.password.is_none() || !is_first)
    };
    require_let_in(view, (user.id, session), concerns)
}

/// Requires that a session may unlink an account: the next one would be the first again.
///
/// # Errors
/// 403 in a session that an organization of the user does not let in, which may accept the account.
pub(super) fn require_to_unlink(
    view: &View,
    oidc: &Oidc,
    (user, session): (&User, Id<Session>),
    link: &SignInLink,
) -> Result<()> {
    require_let_in(view, (user.id, session), |required| may_accept(oidc, required, &link.issuer))
}

fn require_let_in(
    view: &View,
    (user, session): (Id<User>, Id<Session>),
    concerns: impl Fn(&RequiredProvider) -> bool,
) -> Result<()> {
    for org in user_organizations(view, user)? {
        let Some(required) = view.get::<RequiredProvider>(&org)? else { continue };
        if !concerns(&required) || required.lets_in(view, user, session)? {
            continue;
        }
        let name = view.fetch::<Organization>(&org)?.name;
        let providers = required.providers.join(" or ");
        if required.break_glass == user {
            return Err(Error::forbidden(
                "provider_required",
                format!(
                    "your organization {name} lets you in with its provider ({providers}) or with your \
                     password, and this session was begun with another provider; sign in with one of these, \
                     and repeat this then"
                ),
            ));
        }
        // Without an account there, or with one that somebody else has linked, a new password alone is left.
        return Err(Error::forbidden(
            "provider_required",
            format!(
                "your organization {name} requires its provider ({providers}), and this session was not \
                 begun with it; sign in with it, and repeat this then, or set a new password by a link \
                 (Forgotten your password?, or from the operator): that unlinks everything"
            ),
        ));
    }
    Ok(())
}

/// Whether an account of this issuer is, or may become, a way into an organization that requires this: a name
/// that no provider has any more may be the former one of this provider, and is the owner's to replace.
fn may_accept(oidc: &Oidc, required: &RequiredProvider, issuer: &str) -> bool {
    let is_of = |name: &String| oidc.provider(name).is_none_or(|known| known.issuer == issuer);
    required.providers.iter().any(is_of)
}

/// Whether a link is at a provider that an organization requires, under the name that it has now or had when
/// it was linked.
fn accepts(oidc: &Oidc, required: &RequiredProvider, link: &SignInLink) -> bool {
    let names = oidc.names_at(&link.issuer, [&*link.provider]);
    let is_known = oidc.of_issuer(&link.issuer).next().is_some();
    is_known && required.providers.iter().any(|name| names.contains(&name.as_str()))
}
