//! A provider of sign-ins, written by the specifications (OpenID Connect Core 1.0, RFC 6749, 7636, 9207).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64};
use roadstead::auth::oidc::OidcProvider;
use serde_json::{Value, json};

use crate::client::nostr::now_secs;
use crate::sites::{Sites, response};

/// A provider: the people who are signed in there, by code.
pub struct Provider {
    issuer: String,
    es: EcdsaKeyPair,
    rs: RsaKeyPair,
    codes: Mutex<BTreeMap<String, Granted>>,
    /// How often its documents were asked for.
    asked: AtomicUsize,
}

/// What a code was given for.
#[derive(Clone)]
struct Granted {
    challenge: String,
    redirect_uri: String,
    nonce: String,
    claims: Value,
    alg: &'static str,
}

impl Provider {
    /// Starts one at this domain.
    pub fn start(sites: &Sites, domain: &str) -> Arc<Self> {
        let provider = Arc::new(Provider {
            issuer: format!("https://{domain}"),
            es: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            rs: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            codes: Mutex::default(),
            asked: AtomicUsize::new(0),
        });
        let own = provider.clone();
        sites.serve_whole(domain, move |request| own.respond(request));
        provider
    }

    /// It, as an operator configures it.
    pub fn configured(&self) -> OidcProvider {
        OidcProvider {
            name: "kc".into(),
            label: "Keycloak".into(),
            issuer: self.issuer.clone(),
            client_id: "roadstead".into(),
            secret: Some("a secret: with + and %".into()),
            trusts_addresses: false,
            signs_out: false,
            session_secs: 12 * 3600,
        }
    }

    fn respond(&self, request: &str) -> Vec<u8> {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let target = head.split(' ').nth(1).unwrap();
        if let Some((path, query)) = target.split_once('?') {
            return self.lead(path, query);
        }
        if head.starts_with("GET ") {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        let answer = match target {
            "/.well-known/openid-configuration" => Ok(json!({
                "issuer": self.issuer,
                "authorization_endpoint": format!("{}/auth", self.issuer),
                "token_endpoint": format!("{}/token", self.issuer),
                "jwks_uri": format!("{}/keys", self.issuer),
                "end_session_endpoint": format!("{}/end", self.issuer),
                "authorization_response_iss_parameter_supported": true,
            })),
            "/keys" => Ok(self.keys()),
            "/token" => self.token(head, body),
            path => panic!("nobody asks for {path}"),
        };
        let (status, body) = match answer {
            Ok(body) => (200, body),
            Err(error) => (400, json!({"error": error})),
        };
        response(status, "content-type: application/json\r\n", &body.to_string())
    }

    /// What a browser is answered that is led here: who it may be signed in as, and the way back once one of
    /// them is chosen, or it has signed out.
    fn lead(&self, path: &str, query: &str) -> Vec<u8> {
        let asked: BTreeMap<String, String> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let back = match (path, asked.get("as")) {
            ("/auth", Some(name)) => {
                let url = format!("{}/auth?{query}", self.issuer);
                let home = asked["redirect_uri"].split("/sign-in/").next().unwrap();
                format!("{home}{}", self.sign_in(&url, person(name), "ES256"))
            }
            ("/end", _) => {
                let mut state = form_urlencoded::Serializer::new(String::new());
                let state = state.append_pair("state", &asked["state"]).finish();
                format!("{}?{state}", asked["post_logout_redirect_uri"])
            }
            ("/auth", None) => {
                let url = format!("/auth?{query}").replace('&', "&amp;");
                let link =
                    |name| format!("<a id=\"{name}\" href=\"{url}&amp;as={name}\">{name}</a> ");
                let links = ["grace", "ben"].map(link).concat();
                // Without an icon a browser would ask for one.
                let head =
                    "<!doctype html><title>Provider</title><link rel=\"icon\" href=\"data:,\">";
                let page = format!("{head}<p>Who is it? {links}</p>");
                return response(200, "content-type: text/html\r\nconnection: close\r\n", &page);
            }
            _ => panic!("nobody asks for {path}"),
        };
        response(303, &format!("location: {back}\r\nconnection: close\r\n"), "")
    }

    fn keys(&self) -> Value {
        let point = self.es.public_key().as_ref();
        let (n, e) = rsa_parts(self.rs.public_key().as_ref());
        let b64 = |bytes: &[u8]| BASE64.encode(bytes);
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "e", "use": "sig", "alg": "ES256",
             "x": b64(&point[1..33]), "y": b64(&point[33..])},
            {"kty": "RSA", "kid": "r", "use": "sig",
             "n": b64(n),
             "e": b64(e)},
        ]})
    }

    /// Gives a token for a code, once, to the client that proves who it is (RFC 6749, 7636).
    fn token(&self, head: &str, body: &str) -> Result<Value, &'static str> {
        let form: BTreeMap<String, String> =
            form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let pair = STANDARD.encode("roadstead:a+secret%3A+with+%2B+and+%25");
        if !head.contains(&format!("authorization: Basic {pair}")) {
            return Err("invalid_client");
        }
        let granted = self.codes.lock().unwrap().remove(&form["code"]).ok_or("invalid_grant")?;
        let challenge = BASE64.encode(digest(&SHA256, form["code_verifier"].as_bytes()));
        let is_it = challenge == granted.challenge && form["redirect_uri"] == granted.redirect_uri;
        if form["grant_type"] != "authorization_code" || !is_it {
            return Err("invalid_grant");
        }
        let now = now_secs();
        let mut claims = json!({"iss": self.issuer, "aud": "roadstead", "iat": now,
            "exp": now + 300, "nonce": granted.nonce});
        claims.as_object_mut().unwrap().extend(granted.claims.as_object().unwrap().clone());
        Ok(json!({"id_token": self.signed(granted.alg, &claims), "token_type": "Bearer"}))
    }

    fn signed(&self, alg: &str, claims: &Value) -> String {
        let kid = if alg == "RS256" { "r" } else { "e" };
        let part = |value: Value| BASE64.encode(value.to_string());
        let message = format!("{}.{}", part(json!({"alg": alg, "kid": kid})), part(claims.clone()));
        let random = SystemRandom::new();
        let signature = if alg == "RS256" {
            let mut signature = vec![0; self.rs.public_modulus_len()];
            self.rs.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
            signature
        } else {
            self.es.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec()
        };
        format!("{message}.{}", BASE64.encode(signature))
    }

    /// How often its documents were asked for.
    #[allow(dead_code)] // Not every suite counts.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Says that somebody has signed out, as the body of its request (Back-Channel Logout 1.0, 2.5).
    #[allow(dead_code)] // Not every suite has somebody signed out.
    pub fn logout(&self, jti: &str, claims: &Value) -> String {
        let now = now_secs();
        let event = "http://schemas.openid.net/event/backchannel-logout";
        let mut all = json!({"iss": self.issuer, "aud": "roadstead", "iat": now, "exp": now + 120,
            "jti": jti, "events": {event: {}}});
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("logout_token", &self.signed("ES256", &all)).finish()
    }

    /// Signs somebody in who was led here; returns the path that they are led back to.
    pub fn sign_in(&self, url: &str, claims: Value, alg: &'static str) -> String {
        let (endpoint, query) = url.split_once('?').unwrap();
        assert_eq!(endpoint, format!("{}/auth", self.issuer));
        let asked: BTreeMap<String, String> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        assert_eq!(asked["response_type"], "code");
        assert_eq!(asked["client_id"], "roadstead");
        assert_eq!(asked["code_challenge_method"], "S256");
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"));
        let code = format!("code-{}", self.codes.lock().unwrap().len());
        let redirect_uri = asked["redirect_uri"].clone();
        let granted = Granted {
            challenge: asked["code_challenge"].clone(),
            redirect_uri: redirect_uri.clone(),
            nonce: asked["nonce"].clone(),
            claims,
            alg,
        };
        self.codes.lock().unwrap().insert(code.clone(), granted);
        let answer = form_urlencoded::Serializer::new(String::new())
            .append_pair("code", &code)
            .append_pair("state", &asked["state"])
            .append_pair("iss", &self.issuer)
            .finish();
        let path = redirect_uri.splitn(4, '/').nth(3).unwrap().to_string();
        format!("/{path}?{answer}")
    }
}

/// What the provider says of somebody.
pub fn person(name: &str) -> Value {
    json!({"sub": name, "email": format!("{name}@acme.test"), "email_verified": true, "name": name})
}

/// Modulus and exponent of a key of 2,048 bits, as RFC 8017 encodes it.
fn rsa_parts(der: &[u8]) -> (&[u8], &[u8]) {
    // Heads of a sequence and of a number, which begins with a zero; the head of another number.
    (&der[9..265], &der[267..])
}
