//! Uploads and downloads.

use bincode::{Decode, Encode};

use super::*;
use crate::api::op::Upload;
use crate::api::{Offset, Output, Piece, ResourceRef, openapi};
use crate::base::Error;
use crate::store::Record;

/// A picture, in pieces that a record can hold.
#[derive(Clone, Encode, Decode)]
struct PictureRow {
    name: String,
    at: u32,
    bytes: Vec<u8>,
}

impl Record for PictureRow {
    const TABLE: &'static str = "pictures";
    const ORG_SCOPED: bool = false;
    type Key = (String, u32);
    fn key(&self) -> Self::Key {
        (self.name.clone(), self.at)
    }
}

const PIECE_BYTES: usize = 64 * 1024;
const TAKEN: Upload = Upload { max_bytes: 3 * 1024 * 1024, media_types: &["image/png"] };

#[derive(Deserialize, JsonSchema)]
struct Drawn {
    by: String,
}
impl Input for Drawn {}

#[derive(serde::Serialize, JsonSchema)]
struct Picture {
    name: String,
    by: String,
    size: usize,
}

impl Output for Picture {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::of("picture", &self.name)
    }
}

fn put(tx: &mut Tx, req: &Req<String, Drawn>) -> Result<Picture> {
    let bytes = &req.upload.bytes;
    for (at, bytes) in bytes.chunks(PIECE_BYTES).enumerate() {
        tx.put(&PictureRow { name: req.params.clone(), at: at as u32, bytes: bytes.into() })?;
    }
    Ok(Picture { name: req.params.clone(), by: req.input.by.clone(), size: bytes.len() })
}

/// A picture called `torn` has no second piece.
fn get(view: &View, req: &Req<String>, at: Offset) -> Result<Piece> {
    let piece = |at: Offset| view.get::<PictureRow>(&(req.params.clone(), at as u32));
    if req.params == "torn" && at > 0 {
        return Err(Error::internal("it is torn"));
    }
    let bytes = piece(at)?.ok_or_else(|| Error::no_such("picture"))?.bytes.into();
    Ok(Piece { bytes, next: piece(at + 1)?.map(|_| at + 1) })
}

pub(super) fn upload() -> Route {
    Route::put("/pictures/{name}", ANYONE, "picture.put", op::upload(TAKEN, put)).about("Put it")
}

pub(super) fn download() -> Route {
    let get = op::download("image/png", get);
    Route::get("/pictures/{name}", ANYONE, "picture.get", get).about("Get it")
}

/// What comes back for bytes of this media type.
async fn send(address: SocketAddr, path: &str, media_type: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = bytes.len();
    let head = format!(
        "PUT /api/pictures/{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {media_type}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Who is refused by the head need not take the rest.
    let _ = stream.write_all(bytes).await;
    let mut came = String::new();
    stream.read_to_string(&mut came).await.unwrap();
    came
}

/// All that comes back for a picture.
async fn fetch(address: SocketAddr, name: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET /api/pictures/{name} HTTP/1.0\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came).await;
    came
}

#[tokio::test]
async fn an_upload_has_its_own_limit_and_a_download_is_in_pieces() {
    let address = serving(false).await;
    let bytes: Vec<u8> = (0..TAKEN.max_bytes).map(|n| (n / 7) as u8).collect();
    let came = send(address, "one?by=ada", "image/png", &bytes).await;
    let body = format!(r#"{{"name":"one","by":"ada","size":{}}}"#, bytes.len());
    assert!(came.starts_with("HTTP/1.1 200") && came.ends_with(&body), "{came}");
    let came = fetch(address, "one").await;
    let end = came.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&came[..end]).to_lowercase();
    assert!(head.contains("200 ok") && head.contains("content-type: image/png"), "{head}");
    assert!(came[end + 4..] == bytes);
    assert!(fetch(address, "two").await.starts_with(b"HTTP/1.0 404"));
}

#[tokio::test]
async fn an_invalid_upload_is_refused() {
    let address = serving(false).await;
    let large = vec![0; TAKEN.max_bytes + 1];
    for (path, media_type, bytes, status, code) in [
        ("one?by=ada", "image/gif", &b"x"[..], "415", "unsupported_media_type"),
        ("one?by=ada", "application/json", b"{}", "415", "unsupported_media_type"),
        ("one?by=ada", "image/png", &large, "413", "body_too_large"),
        ("one", "image/png", b"x", "400", "invalid_request"),
    ] {
        let came = send(address, path, media_type, bytes).await;
        assert!(came.starts_with(&format!("HTTP/1.1 {status}")), "{came}");
        assert!(came.contains(code), "{came}");
    }
    assert!(send(address, "one?by=ada", "Image/PNG; x=y", b"x").await.contains("200 OK"));
}

#[tokio::test]
async fn a_download_that_fails_does_not_look_complete() {
    let address = serving(false).await;
    assert!(send(address, "torn?by=ada", "image/png", &[1; 100_000]).await.contains("200 OK"));
    let ask = "GET /api/pictures/torn HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came).await;
    assert!(came.starts_with(b"HTTP/1.1 200") && !came.ends_with(b"0\r\n\r\n"));
}

#[test]
fn the_document_lists_the_media_types_of_uploads_and_downloads() {
    let document = openapi::document(openapi::Contents::routes(&[upload(), download()]), "");
    let path = &document["paths"]["/pictures/{name}"];
    let binary = serde_json::json!({"schema": {"type": "string", "format": "binary"}});
    assert_eq!(path["put"]["requestBody"]["content"]["image/png"], binary);
    assert_eq!(path["get"]["responses"]["200"]["content"]["image/png"], binary);
    let parameters = path["put"]["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|one| one["name"] == "by" && one["in"] == "query"));
}
