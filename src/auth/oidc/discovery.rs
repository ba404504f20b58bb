//! What a provider publishes of itself (OpenID Connect Discovery 1.0).

use serde::Deserialize;
use serde_json::Value;

use crate::base::HttpUrl;

/// Where a provider is asked, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Where people sign in; it may have a query.
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub jwks_uri: String,
    /// Whether a client sends its secret in the form, since the provider takes no other way.
    pub takes_secret_in_form: bool,
    /// Where people sign out, if it says so (RP-Initiated Logout 1.0); it may have a query.
    pub end_session_endpoint: Option<String>,
    /// Whether answers name the issuer (RFC 9207): one that does not is of somebody else.
    pub answers_with_issuer: bool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    /// Of any type: what is wrong with it keeps nobody from signing in.
    end_session_endpoint: Option<Value>,
}

impl Discovery {
    /// Reads the document of the provider with this issuer.
    ///
    /// # Errors
    /// A phrase that says why it cannot be used.
    pub fn parse(body: &[u8], issuer: &str) -> Result<Self, &'static str> {
        let document: Document =
            serde_json::from_slice(body).map_err(|_| "its discovery document is not one")?;
        if document.issuer != issuer {
            return Err("its discovery document names another issuer than is configured");
        }
        // Everything that it names must be https if it is.
        let is_https = issuer.starts_with("https://");
        let endpoints =
            [&document.authorization_endpoint, &document.token_endpoint, &document.jwks_uri];
        if !endpoints.into_iter().all(|url| is_usable(url, is_https)) {
            return Err("its discovery document has a URL that cannot be used");
        }
        // Those that say nothing mostly take it; one that says otherwise would ignore the challenge.
        let methods = document.code_challenge_methods_supported;
        if methods.is_some_and(|methods| !methods.iter().any(|method| method == "S256")) {
            return Err("it does not take PKCE with S256");
        }
        let methods = document.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |wanted: &str| methods.iter().any(|method| method == wanted);
        let end = document.end_session_endpoint.as_ref().and_then(Value::as_str);
        let end = end.filter(|url| is_usable(url, is_https)).map(String::from);
        Ok(Discovery {
            end_session_endpoint: end,
            takes_secret_in_form: !takes("client_secret_basic") && takes("client_secret_post"),
            answers_with_issuer: document.authorization_response_iss_parameter_supported,
            authorization_endpoint: document.authorization_endpoint,
            token_endpoint: document.token_endpoint,
            jwks_uri: document.jwks_uri,
        })
    }
}

fn is_usable(url: &str, https_only: bool) -> bool {
    let is_https = url.starts_with("https://");
    HttpUrl::parse(url).is_ok() && !url.contains('#') && (is_https || !https_only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(change: serde_json::Value) -> Result<Discovery, &'static str> {
        let mut document = json!({
            "issuer": "https://id.test", "authorization_endpoint": "https://id.test/auth?a=b",
            "token_endpoint": "https://id.test/token", "jwks_uri": "https://id.test/keys",
        });
        let fields = document.as_object_mut().unwrap();
        fields.extend(change.as_object().unwrap().clone());
        Discovery::parse(document.to_string().as_bytes(), "https://id.test")
    }

    #[test]
    fn a_document_is_of_the_configured_issuer_and_names_https_alone() {
        let read = parsed(json!({})).unwrap();
        assert!(!read.takes_secret_in_form && !read.answers_with_issuer);
        for (change, word) in [
            (json!({"issuer": "https://id.test/"}), "another issuer"),
            (json!({"token_endpoint": "http://id.test/token"}), "a URL"),
            (json!({"jwks_uri": "javascript:alert(1)"}), "a URL"),
            (json!({"authorization_endpoint": "https://id.test/#a"}), "a URL"),
            (json!({"jwks_uri": null}), "not one"),
            (json!({"code_challenge_methods_supported": ["plain"]}), "PKCE"),
        ] {
            let refused = parsed(change.clone()).unwrap_err();
            assert!(refused.contains(word), "{change}: {refused}");
        }
        assert_eq!(read.end_session_endpoint, None);
        let read = parsed(json!({
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "authorization_response_iss_parameter_supported": true,
        }));
        let read = read.unwrap();
        assert!(read.takes_secret_in_form && read.answers_with_issuer);
    }

    #[test]
    fn where_to_sign_out_is_https_or_not_known_and_keeps_nobody_from_signing_in() {
        let end = |url: serde_json::Value| {
            parsed(json!({"end_session_endpoint": url})).unwrap().end_session_endpoint
        };
        assert_eq!(end(json!("https://id.test/end")).as_deref(), Some("https://id.test/end"));
        for wrong in [
            json!("http://id.test/end"),
            json!("javascript:alert(1)"),
            json!("//id.test/end"),
            json!("https://id.test/#end"),
            json!("/end"),
            json!(""),
            json!(1),
            json!(null),
        ] {
            assert_eq!(end(wrong.clone()), None, "{wrong}");
        }
    }
}
