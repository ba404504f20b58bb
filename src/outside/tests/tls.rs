//! Verification of server certificates.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A TLS port with a certificate for `localhost` by the authority in `fixtures/`. Both were made
/// with `openssl ca` for these tests and are valid until 2120.
async fn answering_in_tls() -> (u16, JoinHandle<Option<String>>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(include_bytes!("../fixtures/server.pem")).unwrap()],
            PrivateKeyDer::from_pem_slice(include_bytes!("../fixtures/server.key")).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    server(async move |stream| {
        let mut stream = acceptor.accept(stream).await.ok()?;
        Some(exchange(&mut stream, OK.as_bytes()).await)
    })
    .await
}

#[tokio::test]
async fn an_extra_root_is_trusted() {
    let (port, seen) = answering_in_tls().await;
    let mut call = get(format!("https://localhost:{port}/"));
    call.limits.https_only = true;
    let answer = open_to_loopback().send(call).await.unwrap();
    assert_eq!(answer.body, b"ok");
    assert!(seen.await.unwrap().unwrap().contains(&format!("host: localhost:{port}\r\n")));
}

#[tokio::test]
async fn an_untrusted_certificate_or_one_for_another_host_gets_no_request() {
    let outsider = Outside::new(ClientConfig {
        allow_private: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots_pem: None,
    });
    for (client, host) in [(open_to_loopback(), "127.0.0.1"), (outsider.unwrap(), "localhost")] {
        let (port, seen) = answering_in_tls().await;
        let failure = client.send(get(format!("https://{host}:{port}/"))).await.unwrap_err();
        assert!(matches!(failure, Failure::Tls { .. }), "{failure:?}");
        assert_eq!(seen.await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_server_without_tls_gets_no_request() {
    let (port, seen) = server(async |mut stream: TcpStream| {
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        first[0]
    })
    .await;
    let failure =
        open_to_loopback().send(get(format!("https://127.0.0.1:{port}/"))).await.unwrap_err();
    assert!(matches!(failure, Failure::Tls { .. }), "{failure:?}");
    const TLS_HANDSHAKE: u8 = 22;
    assert_eq!(seen.await.unwrap(), TLS_HANDSHAKE);
}
