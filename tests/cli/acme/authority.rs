//! A small authority by RFC 8555, which really looks for the names (RFC 8737), and which can behave badly.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use time::{Duration as Span, OffsetDateTime};

use super::look::{key_of, look};

/// What the authority does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mood {
    Good,
    /// It refuses the first nonce of each request.
    Forgetful,
    /// It issues nothing for these names.
    Refuses,
    /// It wants to be left alone for two hours.
    Limits,
    /// It takes new accounts, and orders nothing for any.
    Deactivates,
    /// It takes new accounts, and knows none.
    Disowns,
    /// It takes no account, neither one that there is nor another.
    Closed,
    /// It asks for a proof of another kind.
    OtherProof,
    /// It issues certificates for other names.
    OtherNames,
    /// It takes a connection and says nothing.
    Hangs,
    /// It answers something else.
    Nonsense,
    /// It answers without end.
    Floods,
    /// Its pauses are longer than numbers are.
    Overflows,
}

/// A running authority.
pub struct Authority {
    pub address: SocketAddr,
    /// Its root, of which its own certificate is, too, in PEM.
    pub root: String,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Where the names are has changed.
    moved: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

struct State {
    base: String,
    mood: Mood,
    /// Where all names are looked for: until it is known, looks wait.
    names_at: Option<SocketAddr>,
    /// How long certificates are valid, and how much of that has passed already.
    valid: Span,
    passed: Span,
    issuer: Issuer<'static, KeyPair>,
    root: String,
    requests: usize,
    nonces: HashSet<String>,
    refused_nonces: HashSet<String>,
    count: u64,
    /// The keys of accounts, and their hashes.
    accounts: HashMap<String, (Vec<u8>, String)>,
    deactivated: HashSet<String>,
    contacts: Vec<String>,
    orders: Vec<Order>,
    /// What was not as the RFC says.
    faults: Vec<String>,
}

struct Order {
    names: Vec<String>,
    /// What came of the look for each, once there was one.
    proved: Vec<Option<Result<(), String>>>,
    account: String,
    /// The request for the certificate.
    request: Option<Vec<u8>>,
    chain: Option<String>,
}

impl Authority {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let tls = Arc::new(own_tls(&issuer));
        let state = State {
            base: format!("https://{address}"),
            mood: Mood::Good,
            names_at: None,
            valid: Span::days(90),
            passed: Span::ZERO,
            issuer,
            root: root.clone(),
            requests: 0,
            nonces: HashSet::new(),
            refused_nonces: HashSet::new(),
            count: 0,
            accounts: HashMap::new(),
            deactivated: HashSet::new(),
            contacts: Vec::new(),
            orders: Vec::new(),
            faults: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), moved: Condvar::new() });
        let served = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, tls) = (served.clone(), tls.clone());
                thread::spawn(move || {
                    let connection = ServerConnection::new(tls).unwrap();
                    serve(StreamOwned::new(connection, stream), &shared);
                });
            }
        });
        Authority { address, root, shared }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/directory", self.address)
    }

    pub fn set(&self, mood: Mood) {
        self.shared.lock().mood = mood;
    }

    /// Looks for all names at this address from now on.
    pub fn look_at(&self, address: Option<SocketAddr>) {
        self.shared.lock().names_at = address;
        self.shared.moved.notify_all();
    }

    /// Issues certificates that are valid so long, of which so much has passed.
    pub fn set_lifetime(&self, valid: Span, passed: Span) {
        let mut state = self.shared.lock();
        (state.valid, state.passed) = (valid, passed);
    }

    /// Forgets all accounts.
    pub fn forget_accounts(&self) {
        self.shared.lock().accounts.clear();
    }

    /// Takes nothing from the accounts that there are any more.
    pub fn deactivate_accounts(&self) {
        let mut state = self.shared.lock();
        state.deactivated = state.accounts.keys().cloned().collect();
    }

    pub fn requests(&self) -> usize {
        self.shared.lock().requests
    }

    /// The names of all orders.
    pub fn orders(&self) -> Vec<String> {
        self.shared.lock().orders.iter().map(|order| order.names.join(",")).collect()
    }

    /// How many accounts there are.
    pub fn accounts(&self) -> usize {
        self.shared.lock().accounts.len()
    }

    /// The contacts that it was given, one after the other.
    pub fn contacts(&self) -> Vec<String> {
        self.shared.lock().contacts.clone()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        if !thread::panicking() {
            let faults = &self.shared.lock().faults;
            assert!(faults.is_empty(), "{faults:?}");
        }
    }
}

fn own_tls(issuer: &Issuer<'_, KeyPair>) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth();
    config.with_single_cert(vec![certificate.der().clone()], key).unwrap()
}

/// An answer.
struct Reply {
    status: u16,
    location: Option<String>,
    retry_after: Option<&'static str>,
    media_type: &'static str,
    body: String,
}

impl Reply {
    fn json(status: u16, body: &Value) -> Self {
        let (media_type, body) = ("application/json", body.to_string());
        Reply { status, location: None, retry_after: None, media_type, body }
    }

    fn problem(status: u16, kind: &str, detail: &str) -> Self {
        let body = json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail});
        Reply { media_type: "application/problem+json", ..Reply::json(status, &body) }
    }
}

fn serve(stream: StreamOwned<ServerConnection, TcpStream>, shared: &Arc<Shared>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (mut length, mut media_type) = (0, String::new());
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field).is_err() || field.trim().is_empty() {
            break;
        }
        let (name, value) = field.split_once(':').unwrap();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "content-type" => media_type = value.trim().to_string(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let mut stream = reader.into_inner();
    let mood = shared.lock().mood;
    let _ = match mood {
        Mood::Hangs => stream.read(&mut [0]).map(drop),
        Mood::Nonsense => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<nothing>")
        }
        Mood::Floods => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b' '; 4096]).is_ok() {}
            Ok(())
        }
        _ => {
            let answer = answer(shared, method, path, &media_type, &body);
            stream.write_all(answer.as_bytes())
        }
    };
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

/// The answer to a request, with a new nonce.
fn answer(shared: &Arc<Shared>, method: &str, path: &str, media_type: &str, body: &[u8]) -> String {
    let mut state = shared.lock();
    state.requests += 1;
    let mut reply = state.answer(method, path, media_type, body);
    if state.mood == Mood::Overflows {
        reply.retry_after = Some("18446744073709551615");
    }
    if let (true, Some((order, nth))) = (reply.status == 200, challenge(path)) {
        look_for(shared.clone(), &state, order, nth);
    }
    let nonce = state.nonce();
    let location = reply.location.map(|url| format!("Location: {url}\r\n")).unwrap_or_default();
    let after = reply.retry_after.map(|secs| format!("Retry-After: {secs}\r\n"));
    let after = after.unwrap_or_default();
    let body = if method == "HEAD" { "" } else { &reply.body };
    format!(
        "HTTP/1.1 {} x\r\nReplay-Nonce: {nonce}\r\n{location}{after}Content-Type: {}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        reply.status,
        reply.media_type,
        reply.body.len()
    )
}

/// The order and the name of a challenge.
fn challenge(path: &str) -> Option<(usize, usize)> {
    let (order, nth) = path.strip_prefix("/challenge/")?.split_once('/')?;
    Some((order.parse().ok()?, nth.parse().ok()?))
}

/// Looks, once it is known where, whether the name is the account's.
fn look_for(shared: Arc<Shared>, state: &State, number: usize, nth: usize) {
    let (proof, name) = (state.proof(number, nth), state.orders[number].names[nth].clone());
    thread::spawn(move || {
        let known = shared.moved.wait_while(shared.lock(), |state| state.names_at.is_none());
        let at = known.unwrap().names_at.unwrap();
        let proved = look(at, &name, &proof);
        shared.lock().orders[number].proved[nth] = Some(proved);
    });
}

impl State {
    fn nonce(&mut self) -> String {
        self.count += 1;
        let nonce = BASE64.encode(format!("nonce {}", self.count));
        self.nonces.insert(nonce.clone());
        nonce
    }

    fn answer(&mut self, method: &str, path: &str, media_type: &str, body: &[u8]) -> Reply {
        let base = self.base.clone();
        match (method, path) {
            ("GET", "/directory") => {
                let at = |name: &str| format!("{base}/{name}");
                let directory = json!({
                    "newNonce": at("nonce"), "newAccount": at("account"), "newOrder": at("order"),
                    "revokeCert": at("revoke"), "keyChange": at("key"),
                    "meta": {"termsOfService": at("terms")},
                });
                return Reply::json(200, &directory);
            }
            ("HEAD", "/nonce") => return Reply::json(200, &json!({})),
            ("POST", _) => {}
            _ => return Reply::problem(405, "malformed", "what is that"),
        }
        if media_type != "application/jose+json" {
            self.faults.push(format!("{path} as {media_type}"));
        }
        match self.verified(path, body) {
            Ok((account, payload)) => self.asked(path, &account, payload.as_ref()),
            Err(reply) => reply,
        }
    }

    /// The account and the payload of a signed request (RFC 8555, 6.2).
    fn verified(&mut self, path: &str, body: &[u8]) -> Result<(String, Option<Value>), Reply> {
        let malformed = |why: &str| Reply::problem(400, "malformed", why);
        let jws: Value = serde_json::from_slice(body).map_err(|_| malformed("no JSON"))?;
        let part = |name: &str| jws[name].as_str().unwrap_or_default().to_string();
        let decoded = |name: &str| BASE64.decode(part(name)).map_err(|_| malformed(name));
        let protected: Value =
            serde_json::from_slice(&decoded("protected")?).map_err(|_| malformed("protected"))?;
        if protected["alg"] != "ES256" || protected["url"] != format!("{}{path}", self.base) {
            self.faults.push(format!("{path}: {protected}"));
            return Err(malformed("alg or url"));
        }
        let nonce = protected["nonce"].as_str().unwrap_or_default();
        if !self.nonces.remove(nonce) {
            self.faults.push(format!("{path}: a nonce that is not new"));
        }
        if self.mood == Mood::Forgetful && self.refused_nonces.insert(part("payload") + path) {
            return Err(Reply::problem(400, "badNonce", "once more"));
        }
        let (account, key, thumb) = match (&protected["jwk"], &protected["kid"]) {
            (Value::Object(jwk), Value::Null) if path == "/account" => {
                let of = |name: &str| BASE64.decode(jwk[name].as_str().unwrap()).unwrap();
                let key = [&[4][..], &of("x"), &of("y")].concat();
                let canonical = json!({"crv": "P-256", "kty": "EC", "x": jwk["x"], "y": jwk["y"]});
                let thumb = BASE64.encode(digest(&SHA256, canonical.to_string().as_bytes()));
                (format!("{}/account/{}", self.base, self.accounts.len()), key, thumb)
            }
            (Value::Null, Value::String(kid))
                if self.deactivated.contains(kid)
                    || (matches!(self.mood, Mood::Deactivates | Mood::Closed)
                        && path == "/order") =>
            {
                let why = "that account was deactivated";
                return Err(Reply::problem(401, "unauthorized", why));
            }
            (Value::Null, Value::String(kid)) => match self.accounts.get(kid) {
                Some((key, thumb)) if self.mood != Mood::Disowns => {
                    (kid.clone(), key.clone(), thumb.clone())
                }
                _ => return Err(Reply::problem(400, "accountDoesNotExist", "who is that")),
            },
            _ => return Err(malformed("jwk or kid")),
        };
        let signed = format!("{}.{}", part("protected"), part("payload"));
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key);
        if verifier.verify(signed.as_bytes(), &decoded("signature")?).is_err() {
            self.faults.push(format!("{path}: a wrong signature"));
            return Err(malformed("signature"));
        }
        let payload = decoded("payload")?;
        let payload: Option<Value> = match &payload[..] {
            [] => None,
            json => Some(serde_json::from_slice(json).map_err(|_| malformed("payload"))?),
        };
        if path.starts_with("/account") {
            self.met(&account, payload.as_ref().unwrap_or(&Value::Null))?;
            self.accounts.insert(account.clone(), (key, thumb));
        }
        Ok((account, payload))
    }

    /// Whether it takes an account, or the changes of one.
    fn met(&mut self, account: &str, payload: &Value) -> Result<(), Reply> {
        if self.mood == Mood::Closed {
            return Err(Reply::problem(403, "unauthorized", "no more accounts"));
        }
        let contact = payload["contact"][0].as_str().unwrap_or_default();
        if contact.ends_with(".invalid") {
            return Err(Reply::problem(400, "invalidContact", "that domain has no mail"));
        }
        if !self.accounts.contains_key(account) && payload["termsOfServiceAgreed"] != true {
            return Err(Reply::problem(
                403,
                "userActionRequired",
                "you have not agreed to the terms",
            ));
        }
        self.contacts.push(contact.to_string());
        Ok(())
    }

    fn asked(&mut self, path: &str, account: &str, payload: Option<&Value>) -> Reply {
        let parts: Vec<_> = path.split('/').skip(1).collect();
        let number = |at: usize| parts.get(at).and_then(|part| part.parse::<usize>().ok());
        match (parts[0], number(1), parts.get(2)) {
            ("account", number, None) => {
                let status = if number.is_some() { 200 } else { 201 };
                let location = Some(account.to_string());
                Reply { location, ..Reply::json(status, &json!({"status": "valid"})) }
            }
            ("order", None, None) => self.ordered(account, payload.unwrap_or(&Value::Null)),
            ("order", Some(order), None) => {
                self.issue(order);
                Reply { retry_after: Some("0"), ..Reply::json(200, &self.order(order)) }
            }
            ("order", Some(order), Some(&"finalize")) => self.finalized(order, payload),
            ("authz", Some(order), _) => {
                Reply::json(200, &self.authorization(order, number(2).unwrap()))
            }
            ("challenge", Some(order), _) => {
                if payload != Some(&json!({})) {
                    self.faults.push(format!("{path}: {payload:?}"));
                }
                Reply::json(200, &self.authorization(order, number(2).unwrap())["challenges"][0])
            }
            ("certificate", Some(order), None) => {
                let body = self.orders[order].chain.clone().unwrap_or_default();
                let media_type = "application/pem-certificate-chain";
                Reply { media_type, body, ..Reply::json(200, &Value::Null) }
            }
            _ => Reply::problem(404, "malformed", "there is no such thing"),
        }
    }

    fn ordered(&mut self, account: &str, payload: &Value) -> Reply {
        let names = payload["identifiers"].as_array().cloned().unwrap_or_default();
        let names: Vec<String> =
            names.iter().map(|name| name["value"].as_str().unwrap().to_string()).collect();
        match self.mood {
            Mood::Refuses => {
                return Reply::problem(403, "rejectedIdentifier", "not for this name");
            }
            Mood::Limits => {
                let limited = Reply::problem(429, "rateLimited", "too many of them");
                return Reply { retry_after: Some("7200"), ..limited };
            }
            _ => {}
        }
        let number = self.orders.len();
        self.orders.push(Order {
            proved: vec![None; names.len()],
            names,
            account: account.to_string(),
            request: None,
            chain: None,
        });
        let location = Some(format!("{}/order/{number}", self.base));
        Reply { location, ..Reply::json(201, &self.order(number)) }
    }

    fn order(&self, number: usize) -> Value {
        let (base, order) = (&self.base, &self.orders[number]);
        let status = if order.chain.is_some() {
            "valid"
        } else if order.request.is_some() {
            "processing"
        } else if order.proved.iter().any(|proved| matches!(proved, Some(Err(_)))) {
            "invalid"
        } else if order.proved.contains(&None) {
            "pending"
        } else {
            "ready"
        };
        let names = order.names.iter().map(|name| json!({"type": "dns", "value": name}));
        let authorizations =
            (0..order.names.len()).map(|nth| format!("{base}/authz/{number}/{nth}"));
        let mut state = json!({
            "status": status,
            "identifiers": names.collect::<Vec<_>>(),
            "authorizations": authorizations.collect::<Vec<_>>(),
            "finalize": format!("{base}/order/{number}/finalize"),
        });
        if order.chain.is_some() {
            state["certificate"] = format!("{base}/certificate/{number}").into();
        }
        state
    }

    fn authorization(&self, number: usize, nth: usize) -> Value {
        let order = &self.orders[number];
        let (status, error) = match &order.proved[nth] {
            None => ("pending", None),
            Some(Ok(())) => ("valid", None),
            Some(Err(why)) => ("invalid", Some(why)),
        };
        let other = self.mood == Mood::OtherProof;
        let mut challenge = json!({
            "type": if other { "dns-01" } else { "tls-alpn-01" },
            "url": format!("{}/challenge/{number}/{nth}", self.base),
            "token": token(number, nth),
            "status": status,
        });
        if let Some(why) = error {
            let kind = "urn:ietf:params:acme:error:connection";
            challenge["error"] = json!({"type": kind, "detail": why});
        }
        let identifier = json!({"type": "dns", "value": order.names[nth]});
        json!({"status": status, "identifier": identifier, "challenges": [challenge]})
    }

    /// What a look for a name is to find.
    fn proof(&self, number: usize, nth: usize) -> Vec<u8> {
        let (_, thumb) = &self.accounts[&self.orders[number].account];
        let proof = format!("{}.{thumb}", token(number, nth));
        digest(&SHA256, proof.as_bytes()).as_ref().to_vec()
    }

    fn finalized(&mut self, number: usize, payload: Option<&Value>) -> Reply {
        let request = payload.and_then(|payload| payload["csr"].as_str()).unwrap_or_default();
        let request = BASE64.decode(request).unwrap_or_default();
        if self.order(number)["status"] != "ready" {
            return Reply::problem(403, "orderNotReady", "it is not proved");
        }
        if key_of(&request).is_none() {
            self.faults.push("a request that is not signed by its key".into());
            return Reply::problem(400, "badCSR", "what is that");
        }
        let order = &mut self.orders[number];
        let has = |name: &String| request.windows(name.len()).any(|at| at == name.as_bytes());
        if !order.names.iter().all(has) {
            return Reply::problem(400, "badCSR", "it is for other names");
        }
        order.request = Some(request);
        Reply::json(200, &self.order(number))
    }

    /// Issues what was asked for, if something was.
    fn issue(&mut self, number: usize) {
        let order = &mut self.orders[number];
        let Some(key) = order.request.as_deref().and_then(key_of) else { return };
        let names = match self.mood {
            Mood::OtherNames => vec!["other.example".to_string()],
            _ => order.names.clone(),
        };
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = OffsetDateTime::now_utc() - self.passed;
        params.not_after = params.not_before + self.valid;
        let issued = params.signed_by(&key, &self.issuer).unwrap();
        order.chain = Some(format!("{}{}", issued.pem(), self.root));
    }
}

fn token(number: usize, nth: usize) -> String {
    BASE64.encode(format!("the token of name {nth} of order {number}"))
}
